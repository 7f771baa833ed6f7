package token_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/sha256"
	"encoding/asn1"
	"encoding/base64"
	"encoding/json"
	"flag"
	"math/big"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/require"

	"github.com/queuegate/queuegate/token"
)

const vectorsFile = "testdata/vectors.json"

var update = flag.Bool("update", false, "write "+vectorsFile+" anew")

// vectors is the file for verifiers in other languages; testdata/README.md says how to
// use it. Its keys are public and must
// be used for nothing else.
type vectors struct {
	Comment     string          `json:"comment"`
	Issuer      string          `json:"issuer"`
	Install     string          `json:"installation"`
	Room        string          `json:"room"`
	Now         int64           `json:"now"`          // Unix seconds at which tokens are judged
	HS256Secret string          `json:"hs256_secret"` // the bytes of this text
	JWKS        json.RawMessage `json:"jwks"`
	Tokens      []vector        `json:"tokens"`
}

type vector struct {
	Name   string          `json:"name"`
	Result string          `json:"result"` // ok, malformed, signature, room or expired
	Token  string          `json:"token"`
	Claims json.RawMessage `json:"claims,omitempty"`
}

var vectorResults = map[string]error{
	"ok": nil, "malformed": token.ErrMalformed, "signature": token.ErrSignature, "room": token.ErrRoom, "expired": token.ErrExpired,
}

// vectorKeys are the keys of the file: a verifier that accepts all three, and one signer
// for each algorithm.
type vectorKeys struct {
	all, hs, ed, ec *token.Authority
	ecKey           *ecdsa.PrivateKey
}

func newVectorKeys(t *testing.T) vectorKeys {
	t.Helper()
	ed := ed25519.NewKeyFromSeed([]byte(strings.Repeat("queuegat", 4)))
	ec, err := ecdsa.ParseRawPrivateKey(elliptic.P256(), []byte(strings.Repeat("QUEUEGAT", 4)))
	require.NoError(t, err)
	return vectorKeys{
		all: authority(t, token.Options{
			Installation: install, PrivateKey: ed, Previous: [][]byte{secret}, PreviousPublic: []crypto.PublicKey{ec.Public()},
		}),
		hs:    authority(t, token.Options{Installation: install, Secret: secret}),
		ed:    authority(t, token.Options{Installation: install, PrivateKey: ed}),
		ec:    authority(t, token.Options{Installation: install, PrivateKey: ec}),
		ecKey: ec,
	}
}

// es256 signs as RFC 6979 does, so that the file comes out the same each time.
func (k vectorKeys) es256(t *testing.T, header, claims string) string {
	t.Helper()
	text := b64(header) + "." + b64(claims)
	sum := sha256.Sum256([]byte(text))
	der, err := k.ecKey.Sign(nil, sum[:], crypto.SHA256)
	require.NoError(t, err)
	var sig struct{ R, S *big.Int }
	_, err = asn1.Unmarshal(der, &sig)
	require.NoError(t, err)
	return text + "." + base64.RawURLEncoding.EncodeToString(append(sig.R.FillBytes(make([]byte, 32)), sig.S.FillBytes(make([]byte, 32))...))
}

// der is the ES256 signature of raw as other protocols write it.
func (k vectorKeys) der(t *testing.T, raw string) []byte {
	t.Helper()
	sum := sha256.Sum256([]byte(raw[:strings.LastIndexByte(raw, '.')]))
	der, err := k.ecKey.Sign(nil, sum[:], crypto.SHA256)
	require.NoError(t, err)
	return der
}

// edPublic is the public half of the EdDSA key: 32 bytes that anybody knows.
func (k vectorKeys) edPublic(t *testing.T) []byte {
	t.Helper()
	set, err := k.ed.JWKS()
	require.NoError(t, err)
	keys, err := token.ParseJWKS(set)
	require.NoError(t, err)
	public, ok := keys[0].(ed25519.PublicKey)
	require.True(t, ok)
	return public
}

func makeVectors(t *testing.T) vectors {
	t.Helper()
	k := newVectorKeys(t)
	hs := k.hs
	keys, err := k.all.JWKS()
	require.NoError(t, err)
	active := samplePass()
	active.Stage = token.Active
	expired := samplePass()
	expired.IssuedAt, expired.Expires = issuedAt.Add(-time.Hour), issuedAt.Add(time.Minute)
	otherRoom := samplePass()
	otherRoom.Room = "drop"

	good := sign(t, hs, samplePass())
	parts := strings.Split(good, ".")
	header, claims := part(t, good, 0), part(t, good, 1)
	resigned := func(old, by string) string {
		require.Contains(t, claims, old)
		return forge(t, jwt.SigningMethodHS256, secret, header, strings.Replace(claims, old, by, 1))
	}
	v := vectors{
		Comment: "Entry tokens to test a verifier with, judged at now for this room. The keys are public: never use them.",
		Issuer:  issuer, Install: install, Room: room, Now: issuedAt.Add(time.Minute).Unix(), HS256Secret: string(secret), JWKS: keys,
	}
	add := func(name, result, raw string) {
		e := vector{Name: name, Result: result, Token: raw}
		if result == "ok" {
			e.Claims = json.RawMessage(part(t, raw, 1))
		}
		v.Tokens = append(v.Tokens, e)
	}
	add("HS256, ready", "ok", good)
	add("HS256, active", "ok", sign(t, hs, active))
	ed := sign(t, k.ed, samplePass())
	edHeader, edParts := part(t, ed, 0), strings.Split(ed, ".")
	ecHeader := part(t, sign(t, k.ec, samplePass()), 0)
	ec := k.es256(t, ecHeader, claims)
	ecParts := strings.Split(ec, ".")
	add("EdDSA, ready", "ok", ed)
	add("EdDSA, active", "ok", sign(t, k.ed, active))
	add("ES256, ready", "ok", ec)
	add("ES256, active", "ok", k.es256(t, ecHeader, strings.Replace(claims, `"ready"`, `"active"`, 1)))
	add("an unknown claim is ignored", "ok", resigned("{", `{"later":[1],`))
	add("exp is now", "expired", sign(t, hs, expired))
	add("another room", "room", sign(t, hs, otherRoom))
	add("another issuer", "room", resigned(`"queuegate"`, `"staging"`))
	add("another installation", "room", resigned(`"queuegate/qg"`, `"queuegate/staging"`))
	add("no installation", "room", resigned(`"ins":"queuegate/qg",`, ""))
	add("our room in a list", "malformed", resigned(`"checkout"`, `["checkout"]`))
	add("our room behind another", "malformed", resigned("{", `{"aud":"drop",`))
	add("exp twice", "malformed", resigned("{", `{"exp":4102444800,`))
	add("aud in capitals", "malformed", resigned(`"aud"`, `"AUD"`))
	add("no jti", "malformed", resigned(`"jti":"1772366400000001",`, ""))
	add("longer than 4096 bytes", "malformed", resigned("{", `{"later":"`+strings.Repeat("x", 3000)+`",`))
	add("exp in a string", "malformed", resigned(`"exp":1772366481`, `"exp":"1772366481"`))
	add("no exp", "malformed", resigned(`"exp":1772366481,`, ""))
	add("exp ten years ahead", "malformed", resigned(`"exp":1772366481`, `"exp":2087726481`))
	add("unknown stage", "malformed", resigned(`"ready"`, `"waiting"`))
	add("four parts", "malformed", good+".")
	add("a newline in the claims", "malformed", parts[0]+"."+parts[1][:8]+"\n"+parts[1][8:]+"."+parts[2])
	add("another spelling of the last character", "malformed", respelled(good))
	add("alg none", "malformed", b64(strings.Replace(header, "HS256", "none", 1))+"."+parts[1]+".")
	add("HS512 with the HS256 secret", "signature",
		forge(t, jwt.SigningMethodHS512, secret, strings.Replace(header, "HS256", "HS512", 1), claims))
	add("unknown kid", "signature", sign(t, authority(t, token.Options{Installation: install, Secret: oldSecret}), samplePass()))
	add("typ JWT", "signature", forge(t, jwt.SigningMethodHS256, secret, strings.Replace(header, "queuegate-entry+jwt", "JWT", 1), claims))
	add("alg twice in the header", "signature",
		forge(t, jwt.SigningMethodHS256, secret, strings.Replace(header, "{", `{"alg":"none",`, 1), claims))
	add("HS384 with the HS256 secret", "signature",
		forge(t, jwt.SigningMethodHS384, secret, strings.Replace(header, "HS256", "HS384", 1), claims))
	add("EdDSA public key as an HS256 secret under its kid", "signature",
		forge(t, jwt.SigningMethodHS256, k.edPublic(t), strings.Replace(edHeader, "EdDSA", "HS256", 1), claims))
	add("EdDSA public key as an HS256 secret, alg EdDSA", "signature",
		forge(t, jwt.SigningMethodHS256, k.edPublic(t), edHeader, claims))
	add("EdDSA, claims changed", "signature", edParts[0]+"."+b64(strings.Replace(claims, "ready", "active", 1))+"."+edParts[2])
	add("EdDSA header, ES256 signature", "signature", edParts[0]+"."+edParts[1]+"."+ecParts[2])
	add("EdDSA, another room", "room", sign(t, k.ed, otherRoom))
	add("EdDSA, exp is now", "expired", sign(t, k.ed, expired))
	add("EdDSA, another spelling of the last character", "malformed", respelled(ed))
	add("ES256, claims changed", "signature", ecParts[0]+"."+b64(strings.Replace(claims, "ready", "active", 1))+"."+ecParts[2])
	add("ES256, signature in DER", "signature", ecParts[0]+"."+ecParts[1]+"."+base64.RawURLEncoding.EncodeToString(k.der(t, ec)))
	add("ES256, signature of zeros", "signature", ecParts[0]+"."+ecParts[1]+"."+strings.Repeat("A", 86))
	add("ES256, another room", "room", k.es256(t, ecHeader, strings.Replace(claims, `"checkout"`, `"drop"`, 1)))
	add("ES256, another spelling of the last character", "malformed", respelled(ec))
	add("claims changed", "signature", parts[0]+"."+b64(strings.Replace(claims, "ready", "active", 1))+"."+parts[2])
	return v
}

// respelled sets the unused bits of the last character, so that a lax decoder reads the
// same bytes.
func respelled(raw string) string {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	last := strings.IndexByte(alphabet, raw[len(raw)-1])
	return raw[:len(raw)-1] + alphabet[last|1:last|1+1]
}

func TestVectorsAreWhatThisPackageSignsAndRefuses(t *testing.T) {
	t.Parallel()
	made := makeVectors(t)
	if *update {
		data, err := json.MarshalIndent(made, "", "  ")
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(vectorsFile, append(data, '\n'), 0o644))
	}
	data, err := os.ReadFile(vectorsFile)
	require.NoError(t, err)
	var stored vectors
	require.NoError(t, json.Unmarshal(data, &stored))
	require.Equal(t, len(made.Tokens), len(stored.Tokens))

	all := newVectorKeys(t).all
	results := map[string]int{}
	for i, v := range stored.Tokens {
		require.Equal(t, made.Tokens[i].Token, v.Token, "%s: a token of this version differs, run with -update only when that is wanted", v.Name)
		want, known := vectorResults[v.Result]
		require.True(t, known, v.Result)
		results[v.Result]++
		p, err := all.VerifyAt(v.Token, stored.Room, time.Unix(stored.Now, 0))
		require.ErrorIs(t, err, want, v.Name)
		require.Equal(t, want == nil, p != token.Pass{}, v.Name)
		if want == nil {
			var claims struct {
				Sub, JTI string
				End      int64
			}
			require.NoError(t, json.Unmarshal(v.Claims, &claims))
			require.Equal(t, claims.Sub, p.Visitor, v.Name)
			require.Equal(t, claims.JTI, p.Admission, v.Name)
			require.Equal(t, claims.End, p.End, v.Name)
		}
	}
	require.Len(t, results, len(vectorResults), "every result has an example")
	for _, alg := range []string{"HS256", "EdDSA", "ES256"} {
		for _, want := range []string{"ok", "signature", "room", "malformed"} {
			require.True(t, slices.ContainsFunc(stored.Tokens, func(v vector) bool {
				head, err := base64.RawURLEncoding.DecodeString(strings.Split(v.Token, ".")[0])
				return err == nil && v.Result == want && strings.Contains(string(head), alg)
			}), "%s has no example of %s", alg, want)
		}
	}
}
