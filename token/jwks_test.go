package token_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"encoding/base64"
	"encoding/json"
	"strings"
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
	require.Nil(t, data)
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

func TestAVerifierOfTheJWKSAcceptsWhatTheGateSigns(t *testing.T) {
	t.Parallel()
	keys := privateKeys(t)
	gate := authority(t, token.Options{
		Installation: install, PrivateKey: keys["EdDSA"], PreviousPublic: []crypto.PublicKey{keys["ES256"].Public()}, Previous: [][]byte{secret},
	})
	document, err := gate.JWKS()
	require.NoError(t, err)
	public, err := token.ParseJWKS(document)
	require.NoError(t, err)
	require.Len(t, public, 2, "the secret is not among them")
	shop, err := token.NewVerifier(token.VerifierOptions{Issuer: issuer, Installation: install, PublicKeys: public})
	require.NoError(t, err)
	for name, o := range map[string]token.Options{
		"the key in use": {PrivateKey: keys["EdDSA"]}, "the one before": {PrivateKey: keys["ES256"]},
	} {
		o.Installation = install
		got, err := shop.Verify(sign(t, authority(t, o), samplePass()), room)
		require.NoError(t, err, name)
		require.Equal(t, samplePass(), got, name)
	}
	for name, o := range map[string]token.Options{
		"a secret it does not know": {Secret: secret, Installation: install},
		"another key":               {PrivateKey: privateKeys(t)["EdDSA"], Installation: install},
	} {
		_, err := shop.Verify(sign(t, authority(t, o), samplePass()), room)
		require.ErrorIs(t, err, token.ErrSignature, name)
	}
	same, err := shop.JWKS()
	require.NoError(t, err)
	require.JSONEq(t, string(document), string(same))
}

func TestParseJWKSRefusesWhatNoGatePublishes(t *testing.T) {
	t.Parallel()
	keys := privateKeys(t)
	document := func(alg string) string {
		data, err := authority(t, token.Options{PrivateKey: keys[alg]}).JWKS()
		require.NoError(t, err)
		return string(data)
	}
	ed, ec := document("EdDSA"), document("ES256")
	with := func(doc, old, by string) string {
		require.Contains(t, doc, old)
		return strings.Replace(doc, old, by, 1)
	}
	var set keySet
	require.NoError(t, json.Unmarshal([]byte(ec), &set))
	point := set.Keys[0]
	for name, tt := range map[string]struct{ doc, want string }{
		"nothing":                 {"", "is not a JSON Web Key Set"},
		"a page":                  {"<html>", "is not a JSON Web Key Set"},
		"two documents":           {ed + ed, "is not a JSON Web Key Set"},
		"no keys":                 {`{"keys":[]}`, "holds no key"},
		"a secret alone":          {`{"keys":[{"kty":"oct","k":"AAAA"}]}`, "holds no key"},
		"a key to encrypt with":   {with(ed, `"use":"sig"`, `"use":"enc"`), "holds no key"},
		"an RSA key alone":        {`{"keys":[{"kty":"RSA","n":"AQ","e":"AQAB"}]}`, "holds no key"},
		"a private key":           {with(ed, `"kty"`, `"d":"AAAA","kty"`), "is a private key"},
		"a short key":             {`{"keys":[{"kty":"OKP","crv":"Ed25519","x":"AAAA"}]}`, "is no Ed25519 key"},
		"not base64":              {with(ed, `"x":"`, `"x":"=`), "is no Ed25519 key"},
		"a point off the curve":   {with(ec, point["x"], strings.Repeat("A", 43)), "is no point of P-256"},
		"half a point":            {with(ec, `"y":"`+point["y"]+`",`, ""), "is no point of P-256"},
		"another algorithm":       {with(ed, `"alg":"EdDSA"`, `"alg":"HS256"`), `says alg "HS256"`},
		"no algorithm":            {with(ed, `"alg":"EdDSA",`, ""), `says alg ""`},
		"a kid of something else": {with(ed, `"kid":"`, `"kid":"x`), "says alg"},
		"a book":                  {ed + strings.Repeat(" ", 64<<10), "want at most 65536"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			public, err := token.ParseJWKS([]byte(tt.doc))
			require.ErrorContains(t, err, "token: jwks ")
			require.ErrorContains(t, err, tt.want)
			require.Nil(t, public)
		})
	}
	public, err := token.ParseJWKS([]byte(with(ed, `{"keys":[`, `{"keys":[{"kty":"RSA","n":"AQ","e":"AQAB"},`)))
	require.NoError(t, err, "a kind that this version does not know is left out")
	require.Len(t, public, 1)
}

func TestNewVerifierNamesTheOptionThatIsWrong(t *testing.T) {
	t.Parallel()
	for want, o := range map[string]token.VerifierOptions{
		"token: issuer must be":               {Secrets: [][]byte{secret}},
		"token: verifier has no key":          {Issuer: issuer},
		"token: secret 2 has 3 bytes":         {Issuer: issuer, Secrets: [][]byte{secret, []byte("abc")}},
		"token: public key 1 is a []uint8":    {Issuer: issuer, PublicKeys: []crypto.PublicKey{secret}},
		"token: installation must be at most": {Issuer: issuer, Secrets: [][]byte{secret}, Installation: strings.Repeat("a", 257)},
	} {
		v, err := token.NewVerifier(o)
		require.ErrorContains(t, err, want)
		require.Nil(t, v)
	}
}
