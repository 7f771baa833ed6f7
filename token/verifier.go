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

// VerifierOptions says whose tokens a Verifier accepts.
type VerifierOptions struct {
	// Issuer and Installation are as in Options. A gate's Installation is its
	// token.issuer, a slash and its redis.key_prefix.
	Issuer, Installation string

	// Secrets verify HS256; at least 32 bytes each.
	Secrets [][]byte

	// PublicKeys verify: ed25519.PublicKey EdDSA, *ecdsa.PublicKey on P-256 ES256.
	// ParseJWKS reads them from what a gate publishes. At least one key or secret is
	// required.
	PublicKeys []crypto.PublicKey
}

// Verifier tells by an entry token who was admitted. It never changes and is safe for
// use by any number of goroutines.
type Verifier struct {
	origin  origin
	ordered []*key          // as given, the signing key first
	keys    map[string]*key // by the header of their tokens
}

// NewVerifier returns a Verifier, or an error that names the option that is wrong. It is
// for those who check passes and give none; an Authority does both.
func NewVerifier(o VerifierOptions) (*Verifier, error) {
	v := newVerifier()
	if err := v.setUp(o.Issuer, o.Installation, "", o.Secrets, o.PublicKeys); err != nil {
		return nil, err
	}
	if len(v.keys) == 0 {
		return nil, errors.New("token: verifier has no key; without one nothing can be verified")
	}
	return v, nil
}

func newVerifier(known ...*key) *Verifier {
	v := &Verifier{keys: make(map[string]*key)}
	for _, k := range known {
		v.accept(k)
	}
	return v
}

// setUp checks and takes what Options and VerifierOptions have in common; what is the
// word for its keys in an error.
func (v *Verifier) setUp(issuer, installation, what string, secrets [][]byte, public []crypto.PublicKey) error {
	if issuer == "" || len(issuer) > 128 || !utf8.ValidString(issuer) {
		return errors.New("token: issuer must be 1 to 128 bytes of UTF-8")
	}
	if len(installation) > 256 || !utf8.ValidString(installation) {
		return errors.New("token: installation must be at most 256 bytes of UTF-8")
	}
	v.origin = origin{issuer, installation}
	for i, secret := range secrets {
		k, err := secretKey(secret)
		if err != nil {
			return fmt.Errorf("token: %ssecret %d %w", what, i+1, err)
		}
		v.accept(k)
	}
	for i, p := range public {
		k, err := publicKey(p)
		if err != nil {
			return fmt.Errorf("token: %spublic key %d %w", what, i+1, err)
		}
		v.accept(k)
	}
	return nil
}

// Format prints the name of the type and no key, whatever the verb.
func (v *Verifier) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, "token.Verifier") }

func (v *Verifier) accept(k *key) {
	if _, known := v.keys[k.segment]; known {
		return // the signing key listed once more
	}
	v.keys[k.segment] = k
	v.ordered = append(v.ordered, k)
}

// Verify returns what the token raw says when it is signed by a key in use, was given
// by this issuer and installation for exactly this room, and every claim is there, of
// its type and sane. It does not judge the time: a gate judges End by room time. With
// any error (ErrMalformed, ErrSignature, ErrRoom) the Pass is zero, and the error holds
// nothing of the token.
//
// The order keeps a forged token cheap: length, characters, header and signature come
// before any JSON is read.
func (v *Verifier) Verify(raw, room string) (Pass, error) {
	header, claims, sig, err := split(raw)
	if err != nil {
		return Pass{}, err
	}
	k, ok := v.keys[header]
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
	if by != v.origin || p.Room != room {
		return Pass{}, ErrRoom
	}
	return p, nil
}

// VerifyAt is Verify for those who have no room time: it also refuses with ErrExpired
// a token whose exp is now or earlier.
func (v *Verifier) VerifyAt(raw, room string, now time.Time) (Pass, error) {
	p, err := v.Verify(raw, room)
	return p.at(now, err)
}

// at is the pass of a verification, unless that failed or the pass is over by exp.
func (p Pass) at(now time.Time, err error) (Pass, error) {
	switch {
	case err != nil:
		return Pass{}, err
	case !p.Expires.After(now):
		return Pass{}, ErrExpired
	default:
		return p, nil
	}
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
