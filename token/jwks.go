package token

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
)

// maxJWKS is the greatest length in bytes of a key set that is read.
const maxJWKS = 64 << 10

// jwk is a public key as RFC 7517 and RFC 8037 write it.
type jwk struct {
	Type  string `json:"kty"`
	Curve string `json:"crv"`
	X     string `json:"x"`
	Y     string `json:"y,omitempty"`
	ID    string `json:"kid"`
	Alg   string `json:"alg"`
	Use   string `json:"use"`
}

// JWKS returns the public keys in use as a JSON Web Key Set, the signing key first.
// Secrets are never in it: with HS256 alone it is nil.
func (v *Verifier) JWKS() ([]byte, error) {
	var set struct {
		Keys []jwk `json:"keys"`
	}
	for _, k := range v.ordered {
		j := jwk{ID: k.id, Alg: k.method.Alg(), Use: "sig"}
		switch public := k.verify.(type) {
		case ed25519.PublicKey:
			j.Type, j.Curve = "OKP", "Ed25519"
			j.X = base64.RawURLEncoding.EncodeToString(public)
		case *ecdsa.PublicKey:
			point, err := public.Bytes() // 4, then X and Y of equal length
			if err != nil {
				return nil, fmt.Errorf("token: jwks: %w", err)
			}
			half := (len(point) - 1) / 2
			j.Type, j.Curve = "EC", "P-256"
			j.X = base64.RawURLEncoding.EncodeToString(point[1 : 1+half])
			j.Y = base64.RawURLEncoding.EncodeToString(point[1+half:])
		default:
			continue
		}
		set.Keys = append(set.Keys, j)
	}
	if len(set.Keys) == 0 {
		return nil, nil
	}
	return json.Marshal(set)
}

// ParseJWKS returns the public keys of a JSON Web Key Set, as a gate publishes it under
// <prefix>/jwks.json, for VerifierOptions.PublicKeys. Keys of other kinds than those a
// gate signs with are left out; a document with none of ours, with a private key, or
// with a key that says one thing and is another, is an error.
//
// Fetch it over a way you trust, at start and every few minutes, and keep the last good
// one: whoever can change the answer can let anybody in. Never fetch it because a token
// names an unknown key, for that costs an attacker nothing.
func ParseJWKS(data []byte) ([]crypto.PublicKey, error) {
	var set struct {
		Keys []struct {
			jwk
			Private *string `json:"d"`
		} `json:"keys"`
	}
	if len(data) > maxJWKS {
		return nil, fmt.Errorf("token: jwks has %d bytes, want at most %d", len(data), maxJWKS)
	}
	if json.Unmarshal(data, &set) != nil { // its error could quote a key
		return nil, errors.New("token: jwks is not a JSON Web Key Set")
	}
	var keys []crypto.PublicKey
	for i, j := range set.Keys {
		if j.Private != nil {
			return nil, fmt.Errorf("token: jwks key %d is a private key; whoever sees it can give passes", i+1)
		}
		public, err := j.public()
		if err != nil {
			return nil, fmt.Errorf("token: jwks key %d %w", i+1, err)
		}
		if public != nil {
			keys = append(keys, public)
		}
	}
	if len(keys) == 0 {
		return nil, errors.New("token: jwks holds no key on Ed25519 or P-256; a gate that signs with a secret publishes none")
	}
	return keys, nil
}

// public is the key of j, nil when it is of a kind that no gate signs with.
func (j jwk) public() (crypto.PublicKey, error) {
	var public crypto.PublicKey
	var err error
	x, errX := strict.DecodeString(j.X)
	y, errY := strict.DecodeString(j.Y)
	switch {
	case j.Use != "" && j.Use != "sig":
		return nil, nil
	case j.Type == "OKP" && j.Curve == "Ed25519":
		if len(x) != ed25519.PublicKeySize || errX != nil || j.Y != "" {
			return nil, errors.New("is no Ed25519 key")
		}
		public = ed25519.PublicKey(x)
	case j.Type == "EC" && j.Curve == "P-256":
		if len(x) != 32 || len(y) != 32 || errors.Join(errX, errY) != nil {
			return nil, errors.New("is no point of P-256")
		}
		if public, err = ecdsa.ParseUncompressedPublicKey(elliptic.P256(), append(append([]byte{4}, x...), y...)); err != nil {
			return nil, errors.New("is no point of P-256")
		}
	default:
		return nil, nil
	}
	k, err := publicKey(public)
	if err != nil {
		return nil, err
	}
	if j.Alg != k.method.Alg() || j.ID != k.id {
		return nil, fmt.Errorf("says alg %.16q and kid %.32q, but is %s and %s", j.Alg, j.ID, k.method.Alg(), k.id)
	}
	return public, nil
}
