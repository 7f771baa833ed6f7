package token

import (
	"crypto"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"
)

// MaxSize is the greatest length in bytes of an entry token or a ticket. Anything
// longer is refused unread: it came from nobody of ours.
const MaxSize = 4096

// Options says whose tokens an Authority signs and which it accepts.
type Options struct {
	// Issuer is the iss of every token and the only one accepted; required, at most
	// 128 bytes.
	Issuer string

	// Installation is the ins of every token and the only one accepted, at most 256
	// bytes. Installations that share a secret tell each other's passes apart by it,
	// also where they have one issuer. When empty, tokens carry no ins and those that
	// do are refused.
	Installation string

	// Secret signs with HS256; at least 32 bytes. Required unless PrivateKey is set,
	// and unused then: to accept what it signed before, list it in Previous.
	Secret []byte

	// PrivateKey, when set, signs instead of Secret: ed25519.PrivateKey with EdDSA,
	// *ecdsa.PrivateKey on P-256 with ES256.
	PrivateKey crypto.Signer

	// Previous are other secrets accepted: those signed with before, and during a
	// rotation those about to be signed with. At least 32 bytes each.
	Previous [][]byte

	// PreviousPublic is the same for public keys: ed25519.PublicKey or
	// *ecdsa.PublicKey on P-256.
	PreviousPublic []crypto.PublicKey
}

// Authority signs and verifies entry tokens. It never changes and is safe for use by
// any number of goroutines.
type Authority struct {
	origin  origin
	signer  *key
	ordered []*key          // as given, the signing key first
	keys    map[string]*key // by the header of their tokens
}

// New returns an Authority, or an error that names the option that is wrong. No key
// is made up: gates with keys of their own would throw out each other's visitors.
func New(o Options) (*Authority, error) {
	a := &Authority{origin: origin{o.Issuer, o.Installation}, keys: make(map[string]*key)}
	if o.Issuer == "" || len(o.Issuer) > 128 || !utf8.ValidString(o.Issuer) {
		return nil, errors.New("token: issuer must be 1 to 128 bytes of UTF-8")
	}
	if len(o.Installation) > 256 || !utf8.ValidString(o.Installation) {
		return nil, errors.New("token: installation must be at most 256 bytes of UTF-8")
	}
	var err error
	switch {
	case o.PrivateKey != nil:
		if a.signer, err = privateKey(o.PrivateKey); err != nil {
			return nil, fmt.Errorf("token: private key %w", err)
		}
	case len(o.Secret) == 0:
		return nil, fmt.Errorf("token: secret is empty, want at least %d random bytes or a private key", minSecret)
	default:
		if a.signer, err = secretKey(o.Secret); err != nil {
			return nil, fmt.Errorf("token: secret %w", err)
		}
	}
	a.accept(a.signer)
	for i, secret := range o.Previous {
		k, err := secretKey(secret)
		if err != nil {
			return nil, fmt.Errorf("token: previous secret %d %w", i+1, err)
		}
		a.accept(k)
	}
	for i, public := range o.PreviousPublic {
		k, err := publicKey(public)
		if err != nil {
			return nil, fmt.Errorf("token: previous public key %d %w", i+1, err)
		}
		a.accept(k)
	}
	return a, nil
}

// Format prints the name of the type and no key, whatever the verb.
func (a *Authority) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, "token.Authority") }

func (a *Authority) accept(k *key) {
	if _, known := a.keys[k.segment]; known {
		return // the signing key listed once more
	}
	a.keys[k.segment] = k
	a.ordered = append(a.ordered, k)
}

// Sign returns the entry token for p. IssuedAt and Expires are rounded down to whole
// seconds; a pass so short that both fall into one second is dated a second back, for
// exp must lie after iat. A pass that Verify would refuse is an error.
func (a *Authority) Sign(p Pass) (string, error) {
	if !p.Expires.After(p.IssuedAt) {
		return "", errors.New("token: sign: expires is not after issued at")
	}
	p.IssuedAt, p.Expires = p.IssuedAt.Truncate(time.Second), p.Expires.Truncate(time.Second)
	if !p.Expires.After(p.IssuedAt) {
		p.IssuedAt = p.Expires.Add(-time.Second)
	}
	if err := p.check(); err != nil {
		return "", fmt.Errorf("token: sign: %w", err)
	}
	claims, err := encodeClaims(a.origin, p)
	if err != nil {
		return "", fmt.Errorf("token: sign: %w", err)
	}
	signed := a.signer.segment + "." + base64.RawURLEncoding.EncodeToString(claims)
	sig, err := a.signer.method.Sign(signed, a.signer.sign)
	if err != nil {
		return "", fmt.Errorf("token: sign: %w", err)
	}
	return signed + "." + base64.RawURLEncoding.EncodeToString(sig), nil
}

// Verify returns what the token raw says when it is signed by a key in use, was given
// by this issuer and installation for exactly this room, and every claim is there, of
// its type and sane. It does not judge the time: a gate judges End by room time. With
// any error (ErrMalformed, ErrSignature, ErrRoom) the Pass is zero, and the error holds
// nothing of the token.
//
// The order keeps a forged token cheap: length, characters, header and signature come
// before any JSON is read.
func (a *Authority) Verify(raw, room string) (Pass, error) {
	header, claims, sig, err := split(raw)
	if err != nil {
		return Pass{}, err
	}
	k, ok := a.keys[header]
	if !ok {
		return Pass{}, fmt.Errorf("%w: unknown key, algorithm or type", ErrSignature)
	}
	mac, err := strict.DecodeString(sig)
	if err != nil {
		return Pass{}, fmt.Errorf("%w: signature is not strict base64url", ErrMalformed)
	}
	if err := k.method.Verify(raw[:len(header)+1+len(claims)], mac, k.verify); err != nil {
		return Pass{}, fmt.Errorf("%w: signature does not match", ErrSignature)
	}
	said, err := strict.DecodeString(claims)
	if err != nil {
		return Pass{}, fmt.Errorf("%w: claims are not strict base64url", ErrMalformed)
	}
	by, p, err := decodeClaims(said)
	if err != nil {
		return Pass{}, err
	}
	if by != a.origin || p.Room != room {
		return Pass{}, ErrRoom
	}
	return p, nil
}

// VerifyAt is Verify for those who have no room time: it also refuses with ErrExpired
// a token whose exp is now or earlier.
func (a *Authority) VerifyAt(raw, room string, now time.Time) (Pass, error) {
	p, err := a.Verify(raw, room)
	if err != nil {
		return Pass{}, err
	}
	if !p.Expires.After(now) {
		return Pass{}, ErrExpired
	}
	return p, nil
}

// strict refuses the other spellings of a last character that carries unused bits.
// It still skips line ends, which is why split looks at every character.
var strict = base64.RawURLEncoding.Strict()

// split cuts a token into its three parts and refuses everything that is not one in
// form, without allocating.
func split(raw string) (header, claims, sig string, err error) {
	if raw == "" || len(raw) > MaxSize {
		return "", "", "", fmt.Errorf("%w: %d bytes, want 1 to %d", ErrMalformed, len(raw), MaxSize)
	}
	header, rest, ok := strings.Cut(raw, ".")
	if ok {
		claims, sig, ok = strings.Cut(rest, ".")
	}
	if !ok || !base64url(header) || !base64url(claims) || !base64url(sig) {
		return "", "", "", fmt.Errorf("%w: not three base64url parts", ErrMalformed)
	}
	return header, claims, sig, nil
}

// base64url reports whether s is not empty and has only characters of the unpadded
// URL alphabet.
func base64url(s string) bool {
	for i := range len(s) {
		c := s[i]
		if !alphanumeric(c) && c != '-' && c != '_' {
			return false
		}
	}
	return s != ""
}

func alphanumeric(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}
