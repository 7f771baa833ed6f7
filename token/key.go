package token

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/golang-jwt/jwt/v5"
)

// minSecret is the least number of bytes in a secret: as many as the hash gives, as
// RFC 7518 section 3.2 asks.
const minSecret = 32

// entryType is the typ of an entry token. Nothing else signed with the same key can
// pass for one.
const entryType = "queuegate-entry+jwt"

// key is one key with the only algorithm it is used with.
type key struct {
	method  jwt.SigningMethod
	sign    any    // nil for a key that only verifies
	verify  any    // []byte, ed25519.PublicKey or *ecdsa.PublicKey, as method wants it
	id      string // kid
	segment string // the header of every token of this key, as it stands in the token
}

// newKey computes the header of k from its id. The header depends on nothing but the
// key, so a token is matched to its key by comparing this text: no header is ever
// parsed, and alg, kid, typ or an extra field like crit or jwk leave no room to choose.
func newKey(k key) (*key, error) {
	header, err := json.Marshal(struct {
		Alg string `json:"alg"`
		Kid string `json:"kid"`
		Typ string `json:"typ"`
	}{k.method.Alg(), k.id, entryType})
	if err != nil {
		return nil, fmt.Errorf("token: header: %w", err)
	}
	k.segment = base64.RawURLEncoding.EncodeToString(header)
	return &k, nil
}

func secretKey(secret []byte) (*key, error) {
	if len(secret) < minSecret {
		return nil, fmt.Errorf("has %d bytes, want at least %d random ones", len(secret), minSecret)
	}
	if bytes.HasPrefix(bytes.TrimSpace(secret), []byte("-----BEGIN")) {
		// Anybody knows a public key: as a secret it would let everybody sign.
		return nil, errors.New("is PEM text; a key goes where keys are given")
	}
	secret = slices.Clone(secret)
	// An HMAC and not a plain hash: a kid is public, and must be of no use to
	// somebody who tries secrets against a stolen list of hashes.
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte("queuegate kid"))
	return newKey(key{method: jwt.SigningMethodHS256, sign: secret, verify: secret, id: shortID(mac.Sum(nil))})
}

func privateKey(private crypto.Signer) (*key, error) {
	var public crypto.PublicKey
	switch p := private.(type) {
	case ed25519.PrivateKey:
		if len(p) != ed25519.PrivateKeySize {
			return nil, fmt.Errorf("ed25519 key has %d bytes, want %d", len(p), ed25519.PrivateKeySize)
		}
		public = p.Public()
	case *ecdsa.PrivateKey:
		if p == nil {
			return nil, errors.New("ecdsa key is empty")
		}
		public = &p.PublicKey
	default:
		return nil, fmt.Errorf("is a %T, want ed25519.PrivateKey or *ecdsa.PrivateKey on P-256", private)
	}
	k, err := publicKey(public)
	if err != nil {
		return nil, err
	}
	k.sign = private
	// A private key beside a public half that is not its own would sign passes
	// that every gate refuses.
	sig, err := k.method.Sign(k.segment, private)
	if err != nil {
		return nil, fmt.Errorf("cannot sign: %w", err)
	}
	if err := k.method.Verify(k.segment, sig, k.verify); err != nil {
		return nil, errors.New("private and public half do not belong together")
	}
	return k, nil
}

func publicKey(public crypto.PublicKey) (*key, error) {
	k := key{verify: public}
	switch p := public.(type) {
	case ed25519.PublicKey:
		if len(p) != ed25519.PublicKeySize {
			return nil, fmt.Errorf("ed25519 public key has %d bytes, want %d", len(p), ed25519.PublicKeySize)
		}
		k.method = jwt.SigningMethodEdDSA
		k.verify = slices.Clone(p)
	case *ecdsa.PublicKey:
		if p == nil || p.Curve != elliptic.P256() {
			return nil, errors.New("ecdsa key is not on P-256, the curve of ES256")
		}
		if _, err := p.ECDH(); err != nil {
			return nil, fmt.Errorf("ecdsa key: %w", err)
		}
		k.method = jwt.SigningMethodES256
	default:
		// Bytes and strings end here: a PEM text as a key is how a public key
		// becomes an HMAC secret.
		return nil, fmt.Errorf("is a %T, want ed25519.PublicKey or *ecdsa.PublicKey on P-256", public)
	}
	der, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		return nil, fmt.Errorf("encode public key: %w", err)
	}
	sum := sha256.Sum256(der)
	k.id = shortID(sum[:])
	return newKey(k)
}

// shortID takes 72 bits: enough that two keys of one installation never share a kid.
func shortID(sum []byte) string {
	return base64.RawURLEncoding.EncodeToString(sum[:9])
}
