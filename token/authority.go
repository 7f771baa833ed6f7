package token

import (
	"crypto"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"time"
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

// Authority signs entry tokens and verifies them as its Verifier does. It never changes
// and is safe for use by any number of goroutines.
type Authority struct {
	*Verifier
	signer *key
}

// New returns an Authority, or an error that names the option that is wrong. No key
// is made up: gates with keys of their own would throw out each other's visitors.
func New(o Options) (*Authority, error) {
	var signer *key
	var err error
	switch {
	case o.PrivateKey != nil:
		if signer, err = privateKey(o.PrivateKey); err != nil {
			return nil, fmt.Errorf("token: private key %w", err)
		}
	case len(o.Secret) == 0:
		return nil, fmt.Errorf("token: secret is empty, want at least %d random bytes or a private key", minSecret)
	default:
		if signer, err = secretKey(o.Secret); err != nil {
			return nil, fmt.Errorf("token: secret %w", err)
		}
	}
	v := newVerifier(signer)
	if err := v.setUp(o.Issuer, o.Installation, "previous ", o.Previous, o.PreviousPublic); err != nil {
		return nil, err
	}
	return &Authority{Verifier: v, signer: signer}, nil
}

// Format prints the name of the type and no key, whatever the verb.
func (a *Authority) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, "token.Authority") }

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
