package token_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"encoding/base64"
	"encoding/json"
	"testing"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/require"

	"github.com/queuegate/queuegate/token"
)

type keySet struct {
	Keys []map[string]string `json:"keys"`
}

func jwks(t *testing.T, o token.Options) keySet {
	t.Helper()
	data, err := authority(t, o).JWKS()
	require.NoError(t, err)
	var set keySet
	require.NoError(t, json.Unmarshal(data, &set))
	return set
}

func TestJWKSHoldsNoSecret(t *testing.T) {
	t.Parallel()
	data, err := authority(t, token.Options{Secret: secret, Previous: [][]byte{oldSecret}}).JWKS()
	require.NoError(t, err)
	require.JSONEq(t, `{"keys":[]}`, string(data))
}

func TestTokensVerifyWithTheKeysOfTheJWKS(t *testing.T) {
	t.Parallel()
	keys := privateKeys(t)
	ed, ec := keys["EdDSA"], keys["ES256"]
	decode := func(s string) []byte {
		b, err := base64.RawURLEncoding.DecodeString(s)
		require.NoError(t, err)
		return b
	}
	for _, o := range []token.Options{
		{PrivateKey: ed, PreviousPublic: []crypto.PublicKey{ec.Public()}, Previous: [][]byte{secret}},
		{PrivateKey: ec, PreviousPublic: []crypto.PublicKey{ed.Public(), ec.Public()}},
	} {
		set := jwks(t, o)
		require.Len(t, set.Keys, 2)
		first := set.Keys[0]
		require.Equal(t, "sig", first["use"])
		require.NotContains(t, first, "d")
		var public any
		switch first["kty"] {
		case "OKP":
			require.Equal(t, "Ed25519", first["crv"])
			require.NotContains(t, first, "y")
			public = ed25519.PublicKey(decode(first["x"]))
		case "EC":
			require.Equal(t, "P-256", first["crv"])
			point := append([]byte{4}, append(decode(first["x"]), decode(first["y"])...)...)
			p, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), point)
			require.NoError(t, err)
			public = p
		}
		raw := sign(t, authority(t, o), samplePass())
		_, err := jwt.NewParser(jwt.WithValidMethods([]string{first["alg"]}), jwt.WithoutClaimsValidation()).
			Parse(raw, func(parsed *jwt.Token) (any, error) {
				require.Equal(t, first["kid"], parsed.Header["kid"])
				return public, nil
			})
		require.NoError(t, err)
	}
}
