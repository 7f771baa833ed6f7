package token_test

import (
	"crypto/ed25519"
	"encoding/json"
	"flag"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/require"

	"github.com/queuegate/queuegate/token"
)

const vectorsFile = "testdata/vectors.json"

var update = flag.Bool("update", false, "write "+vectorsFile+" anew")

// vectors is the file for verifiers in other languages. Its keys are public and must
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

// vectorAuthorities returns the verifier that accepts both keys of the file, and the
// one that signs with EdDSA.
func vectorAuthorities(t *testing.T) (both, ed *token.Authority) {
	t.Helper()
	private := ed25519.NewKeyFromSeed([]byte(strings.Repeat("queuegat", 4)))
	return authority(t, token.Options{Installation: install, PrivateKey: private, Previous: [][]byte{secret}}),
		authority(t, token.Options{Installation: install, PrivateKey: private})
}

func makeVectors(t *testing.T) vectors {
	t.Helper()
	both, ed := vectorAuthorities(t)
	hs := authority(t, token.Options{Installation: install, Secret: secret})
	keys, err := both.JWKS()
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
	add("EdDSA, ready", "ok", sign(t, ed, samplePass()))
	add("an unknown claim is ignored", "ok", resigned("{", `{"later":[1],`))
	add("exp is now", "expired", sign(t, hs, expired))
	add("another room", "room", sign(t, hs, otherRoom))
	add("another issuer", "room", resigned(`"queuegate"`, `"staging"`))
	add("another installation", "room", resigned(`"queuegate/qg"`, `"queuegate/staging"`))
	add("no installation", "room", resigned(`"ins":"queuegate/qg",`, ""))
	add("our room in a list", "malformed", resigned(`"checkout"`, `["checkout"]`))
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

	both, _ := vectorAuthorities(t)
	results := map[string]int{}
	for i, v := range stored.Tokens {
		require.Equal(t, made.Tokens[i].Token, v.Token, "%s: a token of this version differs, run with -update only when that is wanted", v.Name)
		want, known := vectorResults[v.Result]
		require.True(t, known, v.Result)
		results[v.Result]++
		p, err := both.VerifyAt(v.Token, stored.Room, time.Unix(stored.Now, 0))
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
}
