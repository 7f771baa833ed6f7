package token

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"fmt"
)

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
// Secrets are never in it: with HS256 alone the set is empty.
func (a *Authority) JWKS() ([]byte, error) {
	set := struct {
		Keys []jwk `json:"keys"`
	}{Keys: []jwk{}}
	for _, k := range a.ordered {
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
	return json.Marshal(set)
}
