package token_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/require"

	"github.com/queuegate/queuegate/token"
)

func newIdentity(t testing.TB, change ...func(*token.IdentityOptions)) *token.Identity {
	t.Helper()
	o := token.IdentityOptions{Claim: "sub", Secrets: [][]byte{secret}}
	for _, f := range change {
		f(&o)
	}
	i, err := token.NewIdentity(o)
	require.NoError(t, err)
	return i
}

// shopToken is a good token of the shop that names alice.
func shopToken(t testing.TB, m jwt.SigningMethod, key any, claims string) string {
	t.Helper()
	return forge(t, m, key, `{"alg":"`+m.Alg()+`","typ":"JWT"}`, claims)
}

const aliceUntilOne = `{"sub":"alice","exp":1772370000}` // an hour after issuedAt

func TestIdentityIsReadFromTokensOfEveryKind(t *testing.T) {
	t.Parallel()
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	ec, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	rs, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	i := newIdentity(t, func(o *token.IdentityOptions) {
		o.Secrets = [][]byte{oldSecret, secret}
		o.PublicKeys = []crypto.PublicKey{ed.Public(), &ec.PublicKey, &rs.PublicKey}
	})
	for name, raw := range map[string]string{
		"HS256":                   shopToken(t, jwt.SigningMethodHS256, secret, aliceUntilOne),
		"HS256, the other secret": shopToken(t, jwt.SigningMethodHS256, oldSecret, aliceUntilOne),
		"EdDSA":                   shopToken(t, jwt.SigningMethodEdDSA, ed, aliceUntilOne),
		"ES256":                   shopToken(t, jwt.SigningMethodES256, ec, aliceUntilOne),
		"RS256":                   shopToken(t, jwt.SigningMethodRS256, rs, aliceUntilOne),
	} {
		who, ok := i.Subject(raw, issuedAt)
		require.True(t, ok, name)
		require.Equal(t, "alice", who, name)
	}

	// A key is used with its own algorithm and with no other.
	edPEM, err := x509.MarshalPKIXPublicKey(ed.Public())
	require.NoError(t, err)
	text := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: edPEM})
	for name, raw := range map[string]string{
		"a public key as the secret": shopToken(t, jwt.SigningMethodHS256, text, aliceUntilOne),
		"its bytes as the secret":    shopToken(t, jwt.SigningMethodHS256, edPEM, aliceUntilOne),
		"HS512":                      shopToken(t, jwt.SigningMethodHS512, secret, aliceUntilOne),
		"PS256":                      shopToken(t, jwt.SigningMethodPS256, rs, aliceUntilOne),
		"RS512":                      shopToken(t, jwt.SigningMethodRS512, rs, aliceUntilOne),
		"none":                       b64(`{"alg":"none"}`) + "." + b64(aliceUntilOne) + ".",
		"EdDSA said, HS256 signed":   forge(t, jwt.SigningMethodHS256, secret, `{"alg":"EdDSA"}`, aliceUntilOne),
	} {
		_, ok := i.Subject(raw, issuedAt)
		require.False(t, ok, name)
	}
}

func TestATokenThatIsNotRightNamesNobody(t *testing.T) {
	t.Parallel()
	i := newIdentity(t, func(o *token.IdentityOptions) { o.Issuer, o.Audience = "shop", "queue" })
	claims := func(s string) string { return shopToken(t, jwt.SigningMethodHS256, secret, s) }
	const rest = `"iss":"shop","aud":"queue","exp":1772370000`
	good := claims(`{"sub":"alice",` + rest + `}`)
	who, ok := i.Subject(good, issuedAt)
	require.True(t, ok)
	require.Equal(t, "alice", who)
	_, ok = i.Subject(claims(`{"sub":"alice","iss":"shop","aud":["other","queue"],"exp":1772370000}`), issuedAt)
	require.True(t, ok, "one of the audiences is ours")
	_, ok = i.Subject(claims(`{"sub":"`+strings.Repeat("a", 256)+`",`+rest+`}`), issuedAt)
	require.True(t, ok, "256 bytes")

	parts := strings.Split(good, ".")
	gate := authority(t, token.Options{Secret: secret, Issuer: "shop"})
	header := func(h string) string {
		return forge(t, jwt.SigningMethodHS256, secret, h, `{"sub":"alice",`+rest+`}`)
	}
	for name, raw := range map[string]string{
		"nothing":                   "",
		"no token":                  "alice",
		"another secret":            shopToken(t, jwt.SigningMethodHS256, oldSecret, `{"sub":"alice",`+rest+`}`),
		"claims changed":            parts[0] + "." + b64(`{"sub":"bob",`+rest+`}`) + "." + parts[2],
		"no signature":              parts[0] + "." + parts[1] + ".",
		"a fourth part":             good + ".x",
		"a line end inside":         good[:20] + "\n" + good[20:],
		"a line end behind":         good + "\n",
		"another spelling":          respelled(good),
		"padding":                   good + "=",
		"over 8 KiB":                claims(`{"sub":"alice","x":"` + strings.Repeat("a", 8<<10) + `",` + rest + `}`),
		"another issuer":            claims(`{"sub":"alice","iss":"shop2","aud":"queue","exp":1772370000}`),
		"an issuer of another case": claims(`{"sub":"alice","iss":"SHOP","aud":"queue","exp":1772370000}`),
		"no issuer":                 claims(`{"sub":"alice","aud":"queue","exp":1772370000}`),
		"another audience":          claims(`{"sub":"alice","iss":"shop","aud":["a","b"],"exp":1772370000}`),
		"no audience":               claims(`{"sub":"alice","iss":"shop","exp":1772370000}`),
		"no exp":                    claims(`{"sub":"alice","iss":"shop","aud":"queue"}`),
		"exp in a text":             claims(`{"sub":"alice","iss":"shop","aud":"queue","exp":"1772370000"}`),
		"exp is now":                claims(fmt.Sprintf(`{"sub":"alice","iss":"shop","aud":"queue","exp":%d}`, issuedAt.Unix())),
		"not yet":                   claims(fmt.Sprintf(`{"sub":"alice","nbf":%d,`+rest+`}`, issuedAt.Unix()+1)),
		"no name":                   claims(`{` + rest + `}`),
		"an empty name":             claims(`{"sub":"",` + rest + `}`),
		"a number for a name":       claims(`{"sub":7,` + rest + `}`),
		"a list for a name":         claims(`{"sub":["alice"],` + rest + `}`),
		"a name too long":           claims(`{"sub":"` + strings.Repeat("a", 257) + `",` + rest + `}`),
		"the name in other letters": claims(`{"Sub":"alice",` + rest + `}`),
		"claims that are a list":    claims(`["alice"]`),
		"something critical":        header(`{"alg":"HS256","crit":["b64"],"b64":false}`),
		"a header that is no JSON":  header(`{`),
		"an entry token":            sign(t, gate, samplePass()),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			who, ok := i.Subject(raw, issuedAt)
			require.False(t, ok)
			require.Empty(t, who)
		})
	}
}

// A shop that signs with the gate's own secret must not let passes name people: each
// would be a person of its own.
func TestAnEntryTokenNamesNobodyAlsoWithTheSameSecret(t *testing.T) {
	t.Parallel()
	pass := sign(t, authority(t, token.Options{Secret: secret}), samplePass())
	_, ok := newIdentity(t).Subject(pass, issuedAt)
	require.False(t, ok)
}

func TestKindTellsClaimAndIssuerApart(t *testing.T) {
	t.Parallel()
	kinds := map[string]bool{}
	for _, o := range []token.IdentityOptions{{Claim: "sub"}, {Claim: "uid"}, {Claim: "sub", Issuer: "a"}, {Claim: "su", Issuer: "ba"}, {Claim: "sub", Issuer: "b"}} {
		kinds[newIdentity(t, func(to *token.IdentityOptions) { to.Claim, to.Issuer = o.Claim, o.Issuer }).Kind()] = true
	}
	require.Len(t, kinds, 5)
	require.NotContains(t, kinds, "header")
}

func TestIdentityRefusesKeysThatProtectNothing(t *testing.T) {
	t.Parallel()
	small, err := rsa.GenerateKey(rand.Reader, 1024) //nolint:gosec // too small is the point
	require.NoError(t, err)
	p384, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	require.NoError(t, err)
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	public := func(k crypto.PublicKey) token.IdentityOptions {
		return token.IdentityOptions{Claim: "sub", PublicKeys: []crypto.PublicKey{k}}
	}
	for want, o := range map[string]token.IdentityOptions{
		"token: identity claim is empty; sub is the usual one":                                      {Secrets: [][]byte{secret}},
		"token: identity has no key; without one nothing can be verified":                           {Claim: "sub"},
		"token: identity secret 2 has 31 bytes, want at least 32 random ones":                       {Claim: "sub", Secrets: [][]byte{secret, secret[:31]}},
		"token: identity secret 1 is PEM text; give a public key in PublicKeys":                     {Claim: "sub", Secrets: [][]byte{[]byte("-----BEGIN PUBLIC KEY-----\nabcdefgh")}},
		"token: identity public key 1 is an RSA key of less than 2048 bits":                         public(&small.PublicKey),
		"token: identity public key 1 is not on P-256, the curve of ES256":                          public(&p384.PublicKey),
		"token: identity public key 1 is a ed25519.PrivateKey, want Ed25519, ECDSA on P-256 or RSA": public(ed),
		"token: identity public key 1 is a string, want Ed25519, ECDSA on P-256 or RSA":             public("-----BEGIN PUBLIC KEY-----"),
		"token: identity public key 1 has 3 bytes, want the 32 of Ed25519":                          public(ed25519.PublicKey("abc")),
		"token: identity public key 1 is a <nil>, want Ed25519, ECDSA on P-256 or RSA":              public(nil),
	} {
		i, err := token.NewIdentity(o)
		require.EqualError(t, err, want)
		require.Nil(t, i)
	}
	require.NotContains(t, fmt.Sprintf("%v %+v %#v", newIdentity(t), newIdentity(t), newIdentity(t)), string(secret))
}

// FuzzSubject: whatever is shown, Subject does not panic, and names somebody only by
// what was signed, in the one spelling it was signed in.
func FuzzSubject(f *testing.F) {
	i := newIdentity(f)
	good := shopToken(f, jwt.SigningMethodHS256, secret, aliceUntilOne)
	f.Add(good)
	f.Add("")
	f.Add("a.b.c")
	f.Add(good + "\n")
	f.Add(strings.Repeat(".", 100))
	f.Fuzz(func(t *testing.T, raw string) {
		who, ok := i.Subject(raw, issuedAt.Add(-time.Minute))
		require.Equal(t, raw == good, ok)
		require.Equal(t, ok, who == "alice")
	})
}
