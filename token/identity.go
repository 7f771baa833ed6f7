package token

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

const (
	// maxIdentity is the greatest length in bytes of a token of the shop. Anything
	// longer is refused unread.
	maxIdentity = 8 << 10

	// maxSubject is the greatest length in bytes of what names somebody.
	maxSubject = 256

	// minRSA is the least size in bits of an RSA key, as RFC 7518 section 3.3 asks.
	minRSA = 2048
)

// IdentityOptions says which tokens of the shop name a visitor.
type IdentityOptions struct {
	// Claim whose value is the name: a string of 1 to 256 bytes. Required.
	Claim string

	// Issuer is the only iss accepted, Audience must be among aud. Empty: not
	// looked at.
	Issuer, Audience string

	// Secrets verify HS256; at least 32 bytes each.
	Secrets [][]byte

	// PublicKeys verify: ed25519.PublicKey EdDSA, *ecdsa.PublicKey on P-256 ES256,
	// *rsa.PublicKey of at least 2048 bits RS256. At least one key or secret is
	// required.
	PublicKeys []crypto.PublicKey
}

// Identity tells by a token of the shop who somebody is. It never changes and is safe
// for use by any number of goroutines.
type Identity struct {
	claim, issuer string
	keys          map[string][]jwt.VerificationKey // by algorithm: a key is used with its own alone
	options       []jwt.ParserOption
}

// NewIdentity returns an Identity, or an error that names the option that is wrong.
func NewIdentity(o IdentityOptions) (*Identity, error) {
	i := &Identity{claim: o.Claim, issuer: o.Issuer, keys: map[string][]jwt.VerificationKey{}}
	if o.Claim == "" {
		return nil, errors.New("token: identity claim is empty; sub is the usual one")
	}
	for n, secret := range o.Secrets {
		if len(secret) < minSecret {
			return nil, fmt.Errorf("token: identity secret %d has %d bytes, want at least %d random ones", n+1, len(secret), minSecret)
		}
		if strings.HasPrefix(string(secret), "-----BEGIN") {
			// Anybody knows a public key: as a secret it would let everybody sign.
			return nil, fmt.Errorf("token: identity secret %d is PEM text; give a public key in PublicKeys", n+1)
		}
		i.accept(jwt.SigningMethodHS256, slices.Clone(secret))
	}
	for n, public := range o.PublicKeys {
		method, err := identityMethod(public)
		if err != nil {
			return nil, fmt.Errorf("token: identity public key %d %w", n+1, err)
		}
		i.accept(method, public)
	}
	if len(i.keys) == 0 {
		return nil, errors.New("token: identity has no key; without one nothing can be verified")
	}
	var algorithms []string
	for algorithm := range i.keys {
		algorithms = append(algorithms, algorithm)
	}
	i.options = []jwt.ParserOption{jwt.WithValidMethods(algorithms), jwt.WithStrictDecoding(), jwt.WithExpirationRequired()}
	if o.Issuer != "" {
		i.options = append(i.options, jwt.WithIssuer(o.Issuer))
	}
	if o.Audience != "" {
		i.options = append(i.options, jwt.WithAudience(o.Audience))
	}
	return i, nil
}

// Format prints the name of the type and no key, whatever the verb.
func (i *Identity) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, "token.Identity") }

func (i *Identity) accept(method jwt.SigningMethod, key jwt.VerificationKey) {
	i.keys[method.Alg()] = append(i.keys[method.Alg()], key)
}

// identityMethod is the only algorithm that a public key is used with.
func identityMethod(public crypto.PublicKey) (jwt.SigningMethod, error) {
	switch p := public.(type) {
	case ed25519.PublicKey:
		if len(p) != ed25519.PublicKeySize {
			return nil, fmt.Errorf("has %d bytes, want the %d of Ed25519", len(p), ed25519.PublicKeySize)
		}
		return jwt.SigningMethodEdDSA, nil
	case *ecdsa.PublicKey:
		if p == nil || p.Curve != elliptic.P256() {
			return nil, errors.New("is not on P-256, the curve of ES256")
		}
		if _, err := p.ECDH(); err != nil {
			return nil, fmt.Errorf("is no point of its curve: %w", err)
		}
		return jwt.SigningMethodES256, nil
	case *rsa.PublicKey:
		if p == nil || p.N == nil || p.N.BitLen() < minRSA {
			return nil, fmt.Errorf("is an RSA key of less than %d bits", minRSA)
		}
		return jwt.SigningMethodRS256, nil
	default:
		return nil, fmt.Errorf("is a %T, want Ed25519, ECDSA on P-256 or RSA", public)
	}
}

// Kind names what Subject returns, for VisitorFromKey: the same name from another claim
// or issuer is somebody else.
func (i *Identity) Kind() string { return "jwt\x00" + i.claim + "\x00" + i.issuer }

// Subject returns whom the token raw names at the time now. It is false for everything
// that is not a token in one spelling, signed with one of the keys by the algorithm of
// that key, with an exp after now, an nbf (if any) not after it, the right issuer and
// audience, and a name. An entry token of the gate is nobody's name, even when the shop
// signs with the same secret.
func (i *Identity) Subject(raw string, now time.Time) (string, bool) {
	if raw == "" || len(raw) > maxIdentity || strings.Count(raw, ".") != 2 {
		return "", false
	}
	for part := range strings.SplitSeq(raw, ".") {
		if !base64url(part) { // the decoder would skip line ends
			return "", false
		}
	}
	options := append(slices.Clone(i.options), jwt.WithTimeFunc(func() time.Time { return now }))
	parsed, err := jwt.NewParser(options...).Parse(raw, func(t *jwt.Token) (any, error) {
		if _, critical := t.Header["crit"]; critical || t.Header["typ"] == entryType {
			return nil, jwt.ErrTokenUnverifiable
		}
		return jwt.VerificationKeySet{Keys: i.keys[t.Method.Alg()]}, nil
	})
	if err != nil || !parsed.Valid {
		return "", false
	}
	claims, _ := parsed.Claims.(jwt.MapClaims)
	name, _ := claims[i.claim].(string)
	if name == "" || len(name) > maxSubject {
		return "", false
	}
	return name, true
}
