package token_test

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/require"

	"github.com/queuegate/queuegate/token"
)

const (
	room    = "checkout"
	issuer  = "queuegate"
	install = "queuegate/qg"
	visitor = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
)

// Secrets as an operator makes them: 32 bytes, spelled in hex.
var (
	secret    = []byte("5f1d3c0a9b8e7264d0c1b2a3948576e1")
	oldSecret = []byte("0e9d8c7b6a5f4e3d2c1b0a9f8e7d6c5b")
)

var issuedAt = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func samplePass() token.Pass {
	return token.Pass{
		Room: room, Visitor: visitor, Admission: "1772366400000001", Stage: token.Ready,
		Place: 1772366400000001, Generation: 1772366300000000, Epoch: 3, End: 1772366490000,
		IssuedAt: issuedAt, Expires: issuedAt.Add(81 * time.Second),
	}
}

func authority(t testing.TB, o token.Options) *token.Authority {
	t.Helper()
	if o.Issuer == "" {
		o.Issuer = issuer
	}
	a, err := token.New(o)
	require.NoError(t, err)
	return a
}

func sign(t testing.TB, a *token.Authority, p token.Pass) string {
	t.Helper()
	raw, err := a.Sign(p)
	require.NoError(t, err)
	return raw
}

func privateKeys(t testing.TB) map[string]crypto.Signer {
	t.Helper()
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	ec, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	return map[string]crypto.Signer{"EdDSA": ed, "ES256": ec}
}

func b64(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }

func part(t testing.TB, raw string, n int) string {
	t.Helper()
	parts := strings.Split(raw, ".")
	require.Len(t, parts, 3)
	decoded, err := base64.RawURLEncoding.DecodeString(parts[n])
	require.NoError(t, err)
	return string(decoded)
}

// forge signs any header and claims.
func forge(t testing.TB, m jwt.SigningMethod, key any, header, claims string) string {
	t.Helper()
	text := b64(header) + "." + b64(claims)
	sig, err := m.Sign(text, key)
	require.NoError(t, err)
	return text + "." + base64.RawURLEncoding.EncodeToString(sig)
}

func TestSignedPassVerifiesUnchanged(t *testing.T) {
	t.Parallel()
	options := map[string]token.Options{"HS256": {Secret: secret}}
	for name, private := range privateKeys(t) {
		options[name] = token.Options{PrivateKey: private}
	}
	for alg, o := range options {
		t.Run(alg, func(t *testing.T) {
			t.Parallel()
			a := authority(t, o)
			for _, stage := range []token.Stage{token.Ready, token.Active} {
				want := samplePass()
				want.Stage = stage
				raw := sign(t, a, want)
				require.Contains(t, part(t, raw, 0), `"alg":"`+alg+`"`)
				got, err := a.Verify(raw, room)
				require.NoError(t, err)
				require.Equal(t, want, got)
			}
		})
	}
}

func TestZeroPlaceAndGenerationAreAllowed(t *testing.T) {
	t.Parallel()
	a := authority(t, token.Options{Secret: secret})
	want := samplePass()
	want.Place, want.Generation, want.Epoch = 0, 0, 0
	got, err := a.Verify(sign(t, a, want), room)
	require.NoError(t, err)
	require.Equal(t, want, got)
}

func TestExpiryIsRoundedDownAndStaysAfterIssue(t *testing.T) {
	t.Parallel()
	a := authority(t, token.Options{Secret: secret})
	for name, tt := range map[string]struct {
		iat, exp         time.Duration
		wantIAT, wantEXP time.Duration
	}{
		"whole seconds stay":                  {0, 90 * time.Second, 0, 90 * time.Second},
		"exp never outlives the lease":        {400 * time.Millisecond, 1999 * time.Millisecond, 0, time.Second},
		"a lease within one second":           {100 * time.Millisecond, 900 * time.Millisecond, -time.Second, 0},
		"the least lease over a second's end": {999 * time.Millisecond, time.Second, 0, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := samplePass()
			p.IssuedAt, p.Expires = issuedAt.Add(tt.iat), issuedAt.Add(tt.exp)
			got, err := a.Verify(sign(t, a, p), room)
			require.NoError(t, err)
			require.Equal(t, issuedAt.Add(tt.wantIAT), got.IssuedAt)
			require.Equal(t, issuedAt.Add(tt.wantEXP), got.Expires)
		})
	}
}

func TestSignRefusesWhatVerifyWouldRefuse(t *testing.T) {
	t.Parallel()
	a := authority(t, token.Options{Secret: secret})
	for name, change := range map[string]func(*token.Pass){
		"no room":                       func(p *token.Pass) { p.Room = "" },
		"room with a space":             func(p *token.Pass) { p.Room = "a b" },
		"room too long":                 func(p *token.Pass) { p.Room = strings.Repeat("a", 65) },
		"no admission":                  func(p *token.Pass) { p.Admission = "" },
		"admission that ends a header":  func(p *token.Pass) { p.Admission = "1\r\nX: y" },
		"no visitor":                    func(p *token.Pass) { p.Visitor = "" },
		"visitor of another alphabet":   func(p *token.Pass) { p.Visitor = strings.ToLower(visitor) },
		"no stage":                      func(p *token.Pass) { p.Stage = "" },
		"unknown stage":                 func(p *token.Pass) { p.Stage = "waiting" },
		"negative place":                func(p *token.Pass) { p.Place = -1 },
		"place that Lua cannot hold":    func(p *token.Pass) { p.Place = 1 << 53 },
		"negative generation":           func(p *token.Pass) { p.Generation = -1 },
		"negative epoch":                func(p *token.Pass) { p.Epoch = -1 },
		"negative end":                  func(p *token.Pass) { p.End = -1 },
		"expires when issued":           func(p *token.Pass) { p.Expires = p.IssuedAt },
		"expires before issued":         func(p *token.Pass) { p.Expires = p.IssuedAt.Add(-time.Hour) },
		"no times":                      func(p *token.Pass) { p.IssuedAt, p.Expires = time.Time{}, time.Time{} },
		"all before 1970":               func(p *token.Pass) { p.IssuedAt, p.Expires = time.Unix(-10, 0), time.Unix(-5, 0) },
		"no issue time":                 func(p *token.Pass) { p.IssuedAt = time.Time{} },
		"lives longer than 400 days":    func(p *token.Pass) { p.Expires = p.IssuedAt.Add(400*24*time.Hour + time.Second) },
		"lives 300 years past Duration": func(p *token.Pass) { p.Expires = p.IssuedAt.AddDate(300, 0, 0) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := samplePass()
			change(&p)
			raw, err := a.Sign(p)
			require.ErrorContains(t, err, "token: sign: ")
			require.Empty(t, raw)
		})
	}
}

func TestNewNamesTheOptionThatIsWrong(t *testing.T) {
	t.Parallel()
	p384, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	require.NoError(t, err)
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	ed := ed25519.NewKeyFromSeed(secret)
	mixed := append(ed25519.PrivateKey(nil), ed...)
	copy(mixed[32:], ed25519.NewKeyFromSeed(oldSecret).Public().(ed25519.PublicKey))
	pemKey := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: ed.Public().(ed25519.PublicKey)})

	for name, tt := range map[string]struct {
		o    token.Options
		want string
	}{
		"no issuer":                   {token.Options{Secret: secret}, "token: issuer must be"},
		"issuer too long":             {token.Options{Issuer: strings.Repeat("a", 129), Secret: secret}, "token: issuer must be"},
		"issuer that is not UTF-8":    {token.Options{Issuer: "\xff", Secret: secret}, "token: issuer must be"},
		"installation too long":       {token.Options{Issuer: issuer, Installation: strings.Repeat("a", 257), Secret: secret}, "token: installation must be"},
		"installation not UTF-8":      {token.Options{Issuer: issuer, Installation: "\xff", Secret: secret}, "token: installation must be"},
		"no key at all":               {token.Options{Issuer: issuer}, "token: secret is empty, want at least 32"},
		"empty secret":                {token.Options{Issuer: issuer, Secret: []byte{}}, "token: secret is empty"},
		"short secret":                {token.Options{Issuer: issuer, Secret: secret[:31]}, "token: secret has 31 bytes, want at least 32"},
		"short previous secret":       {token.Options{Issuer: issuer, Secret: secret, Previous: [][]byte{oldSecret, nil}}, "token: previous secret 2 has 0 bytes"},
		"PEM text as a secret":        {token.Options{Issuer: issuer, Secret: pemKey}, "token: secret is PEM text"},
		"PEM text as an old secret":   {token.Options{Issuer: issuer, Secret: secret, Previous: [][]byte{pemKey}}, "token: previous secret 1 is PEM text"},
		"PEM text as a public key":    {token.Options{Issuer: issuer, Secret: secret, PreviousPublic: []crypto.PublicKey{pemKey}}, "token: previous public key 1 is a []uint8"},
		"text as a public key":        {token.Options{Issuer: issuer, Secret: secret, PreviousPublic: []crypto.PublicKey{"x"}}, "token: previous public key 1 is a string"},
		"no public key":               {token.Options{Issuer: issuer, Secret: secret, PreviousPublic: []crypto.PublicKey{nil}}, "token: previous public key 1 is a <nil>"},
		"short public key":            {token.Options{Issuer: issuer, Secret: secret, PreviousPublic: []crypto.PublicKey{ed25519.PublicKey{1}}}, "public key has 1 bytes"},
		"empty ECDSA public key":      {token.Options{Issuer: issuer, Secret: secret, PreviousPublic: []crypto.PublicKey{(*ecdsa.PublicKey)(nil)}}, "not on P-256"},
		"RSA private key":             {token.Options{Issuer: issuer, PrivateKey: rsaKey}, "token: private key is a *rsa.PrivateKey"},
		"ECDSA on P-384":              {token.Options{Issuer: issuer, PrivateKey: p384}, "not on P-256"},
		"no ECDSA key in the pointer": {token.Options{Issuer: issuer, PrivateKey: (*ecdsa.PrivateKey)(nil)}, "token: private key ecdsa key is empty"},
		"empty ECDSA key":             {token.Options{Issuer: issuer, PrivateKey: &ecdsa.PrivateKey{}}, "not on P-256"},
		"short Ed25519 key":           {token.Options{Issuer: issuer, PrivateKey: ed[:31]}, "token: private key ed25519 key has 31 bytes"},
		"public half of another key":  {token.Options{Issuer: issuer, PrivateKey: mixed}, "do not belong together"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, err := token.New(tt.o)
			require.ErrorContains(t, err, tt.want)
			require.Nil(t, a)
		})
	}
}

// Staging and production may share a secret, an issuer and the names of rooms.
func TestPassesStayInTheirInstallation(t *testing.T) {
	t.Parallel()
	at := func(installation string) *token.Authority {
		return authority(t, token.Options{Secret: secret, Installation: installation})
	}
	good := sign(t, at(install), samplePass())
	header, claims := part(t, good, 0), part(t, good, 1)
	require.Contains(t, claims, `"ins":"queuegate/qg"`)
	saying := func(ins string) string {
		return forge(t, jwt.SigningMethodHS256, secret, header, strings.Replace(claims, `"ins":"queuegate/qg"`, ins, 1))
	}
	for name, tt := range map[string]struct {
		at   string
		raw  string
		want error
	}{
		"its own":                         {install, good, nil},
		"another prefix":                  {"queuegate/staging", good, token.ErrRoom},
		"another issuer in the name":      {"staging/qg", good, token.ErrRoom},
		"a name that begins like it":      {install + "2", good, token.ErrRoom},
		"a name in capitals":              {strings.ToUpper(install), good, token.ErrRoom},
		"at a verifier without a name":    {"", good, token.ErrRoom},
		"without a name at one with":      {install, sign(t, at(""), samplePass()), token.ErrRoom},
		"without a name at one without":   {"", sign(t, at(""), samplePass()), nil},
		"an empty name":                   {install, saying(`"ins":""`), token.ErrRoom},
		"no name but null":                {install, saying(`"ins":null`), token.ErrRoom},
		"the name in a list":              {install, saying(`"ins":["queuegate/qg"]`), token.ErrMalformed},
		"a number for a name":             {install, saying(`"ins":1`), token.ErrMalformed},
		"an empty name at one without it": {"", saying(`"ins":""`), nil},
		"the name twice":                  {install, saying(`"ins":"queuegate/staging","ins":"queuegate/qg"`), token.ErrMalformed},
		"the name in capitals":            {install, saying(`"INS":"queuegate/qg"`), token.ErrMalformed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, err := at(tt.at).Verify(tt.raw, room)
			require.ErrorIs(t, err, tt.want)
			require.Equal(t, tt.want == nil, p == samplePass())
		})
	}
}

func TestTheCallerMayReuseTheSecretsBuffer(t *testing.T) {
	t.Parallel()
	buffer := bytes.Clone(secret)
	a := authority(t, token.Options{Secret: buffer})
	raw := sign(t, authority(t, token.Options{Secret: secret}), samplePass())
	clear(buffer)
	_, err := a.Verify(raw, room)
	require.NoError(t, err)
}

func TestVerifyRefusesForgedTokens(t *testing.T) {
	t.Parallel()
	a := authority(t, token.Options{Secret: secret})
	good := sign(t, a, samplePass())
	header, claims := part(t, good, 0), part(t, good, 1)
	parts := strings.Split(good, ".")
	swap := func(old, by string) string {
		require.Contains(t, header, old)
		return strings.Replace(header, old, by, 1)
	}
	hs256 := func(header string) string { return forge(t, jwt.SigningMethodHS256, secret, header, claims) }
	signatureOf := func(p token.Pass) string { return strings.Split(sign(t, a, p), ".")[2] }
	other := samplePass()
	other.Admission = "2"
	ticketKey, err := token.NewTickets(secret, install)
	require.NoError(t, err)

	for name, tt := range map[string]struct {
		raw  string
		want error
	}{
		"empty":                            {"", token.ErrMalformed},
		"spaces":                           {"   ", token.ErrMalformed},
		"one character":                    {"a", token.ErrMalformed},
		"two parts":                        {"a.b", token.ErrMalformed},
		"three parts of nothing":           {"..", token.ErrMalformed},
		"three short parts":                {"a.b.c", token.ErrSignature},
		"four parts":                       {good + ".d", token.ErrMalformed},
		"a dot behind":                     {good + ".", token.ErrMalformed},
		"a dot in front":                   {"." + good, token.ErrMalformed},
		"64 KiB of letters":                {strings.Repeat("a", 64<<10), token.ErrMalformed},
		"1 MB of dots":                     {strings.Repeat(".", 1<<20), token.ErrMalformed},
		"one byte over the cap":            {parts[0] + "." + strings.Repeat("A", token.MaxSize-len(parts[0])-1-43) + "." + strings.Repeat("A", 43), token.ErrMalformed},
		"exactly the cap, wrong signature": {parts[0] + "." + strings.Repeat("A", token.MaxSize-len(parts[0])-2-43) + "." + strings.Repeat("A", 43), token.ErrSignature},
		"Bearer in front":                  {"Bearer " + good, token.ErrMalformed},
		"quoted as a cookie":               {`"` + good + `"`, token.ErrMalformed},
		"newline inside the claims":        {parts[0] + "." + parts[1][:9] + "\n" + parts[1][9:] + "." + parts[2], token.ErrMalformed},
		"carriage return in the signature": {good[:len(good)-3] + "\r" + good[len(good)-3:], token.ErrMalformed},
		"newline behind":                   {good + "\n", token.ErrMalformed},
		"NUL behind":                       {good + "\x00", token.ErrMalformed},
		"padding behind":                   {good + "=", token.ErrMalformed},
		"standard alphabet":                {"a+/.b.c", token.ErrMalformed},
		"percent encoding":                 {strings.Replace(good, ".", "%2e", 1), token.ErrMalformed},
		"letters beyond ASCII":             {"é.b.c", token.ErrMalformed},

		"no signature":                        {parts[0] + "." + parts[1] + ".", token.ErrMalformed},
		"signature cut short":                 {good[:len(good)-3], token.ErrSignature},
		"signature of another pass":           {parts[0] + "." + parts[1] + "." + signatureOf(other), token.ErrSignature},
		"claims changed under the signature":  {parts[0] + "." + b64(strings.Replace(claims, "ready", "active", 1)) + "." + parts[2], token.ErrSignature},
		"claims in another order":             {parts[0] + "." + b64(reordered(t, claims)) + "." + parts[2], token.ErrSignature},
		"signed with another secret":          {sign(t, authority(t, token.Options{Secret: oldSecret}), samplePass()), token.ErrSignature},
		"another secret under our kid":        {forge(t, jwt.SigningMethodHS256, oldSecret, header, claims), token.ErrSignature},
		"empty secret under our kid":          {forge(t, jwt.SigningMethodHS256, []byte{}, header, claims), token.ErrSignature},
		"alg none without signature":          {b64(swap("HS256", "none")) + "." + parts[1] + ".", token.ErrMalformed},
		"alg none without a trailing dot":     {b64(swap("HS256", "none")) + "." + parts[1], token.ErrMalformed},
		"alg none with a signature":           {hs256(swap("HS256", "none")), token.ErrSignature},
		"alg None":                            {hs256(swap("HS256", "None")), token.ErrSignature},
		"alg nOnE":                            {hs256(swap("HS256", "nOnE")), token.ErrSignature},
		"alg missing":                         {hs256(swap(`"alg":"HS256",`, "")), token.ErrSignature},
		"alg of a wrong type":                 {hs256(swap(`"HS256"`, `["HS256"]`)), token.ErrSignature},
		"alg in small letters":                {hs256(swap("HS256", "hs256")), token.ErrSignature},
		"HS512 with the HS256 secret":         {forge(t, jwt.SigningMethodHS512, secret, swap("HS256", "HS512"), claims), token.ErrSignature},
		"HS384 with the HS256 secret":         {forge(t, jwt.SigningMethodHS384, secret, swap("HS256", "HS384"), claims), token.ErrSignature},
		"HS512 signature under our header":    {forge(t, jwt.SigningMethodHS512, secret, header, claims), token.ErrSignature},
		"kid missing":                         {hs256(`{"alg":"HS256","typ":"queuegate-entry+jwt"}`), token.ErrSignature},
		"kid unknown":                         {hs256(`{"alg":"HS256","kid":"AAAAAAAAAAAA","typ":"queuegate-entry+jwt"}`), token.ErrSignature},
		"kid that is a path":                  {hs256(`{"alg":"HS256","kid":"../../dev/null","typ":"queuegate-entry+jwt"}`), token.ErrSignature},
		"typ missing":                         {hs256(swap(`,"typ":"queuegate-entry+jwt"`, "")), token.ErrSignature},
		"typ of any JWT":                      {hs256(swap("queuegate-entry+jwt", "JWT")), token.ErrSignature},
		"a critical extension":                {hs256(swap("{", `{"crit":["b64"],"b64":false,`)), token.ErrSignature},
		"a key of its own":                    {hs256(swap("{", `{"jwk":{"kty":"oct","k":"AA"},`)), token.ErrSignature},
		"a key set of its own":                {hs256(swap("{", `{"jku":"http://127.0.0.1/keys",`)), token.ErrSignature},
		"header that is not JSON":             {hs256("x"), token.ErrSignature},
		"alg twice, ours last":                {hs256(swap("{", `{"alg":"none",`)), token.ErrSignature},
		"alg twice, ours first":               {hs256(swap("}", `,"alg":"none"}`)), token.ErrSignature},
		"typ twice":                           {hs256(swap("}", `,"typ":"JWT"}`)), token.ErrSignature},
		"alg in an object":                    {hs256(swap(`"HS256"`, `{"alg":"HS256"}`)), token.ErrSignature},
		"header with a space":                 {hs256(swap("{", "{ ")), token.ErrSignature},
		"names in capitals":                   {hs256(swap(`"alg"`, `"ALG"`)), token.ErrSignature},
		"embedded certificate":                {hs256(swap("{", `{"x5c":["AA"],`)), token.ErrSignature},
		"compressed claims":                   {hs256(swap("{", `{"zip":"DEF",`)), token.ErrSignature},
		"ticket shown as an entry token":      {ticketKey.Seal(room, sampleTicket()), token.ErrMalformed},
		"ticket with dots to look like a JWT": {parts[0] + "." + ticketKey.Seal(room, sampleTicket()) + "." + parts[2], token.ErrSignature},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, err := a.Verify(tt.raw, room)
			require.ErrorIs(t, err, tt.want)
			require.Zero(t, p)
			if len(tt.raw) > 20 {
				require.NotContains(t, err.Error(), tt.raw[:20], "an error goes into logs, where no token belongs")
			}
		})
	}
	_, err = a.Verify(good, room)
	require.NoError(t, err, "the token all of these were made from is good")
}

func reordered(t testing.TB, claims string) string {
	t.Helper()
	var m map[string]any
	d := json.NewDecoder(strings.NewReader(claims))
	d.UseNumber()
	require.NoError(t, d.Decode(&m))
	out, err := json.Marshal(m)
	require.NoError(t, err)
	require.NotEqual(t, claims, string(out))
	return string(out)
}

func TestVerifyRefusesSignedClaimsThatAreNotAPass(t *testing.T) {
	t.Parallel()
	a := authority(t, token.Options{Secret: secret})
	good := sign(t, a, samplePass())
	header := part(t, good, 0)
	var base map[string]json.RawMessage
	require.NoError(t, json.Unmarshal([]byte(part(t, good, 1)), &base))
	require.Len(t, base, 11)
	with := func(claim, value string) string {
		m := maps.Clone(base)
		m[claim] = json.RawMessage(value)
		if value == "" {
			delete(m, claim)
		}
		out, err := json.Marshal(m)
		require.NoError(t, err)
		return string(out)
	}
	type attack struct {
		claims string
		want   error
	}
	attacks := map[string]attack{
		"no object":                    {`"x"`, token.ErrMalformed},
		"null":                         {`null`, token.ErrMalformed},
		"a list":                       {`[]`, token.ErrMalformed},
		"an empty object":              {`{}`, token.ErrMalformed},
		"two objects":                  {with("iss", `"queuegate"`) + "{}", token.ErrMalformed},
		"cut short":                    {`{"iss":`, token.ErrMalformed},
		"deep nesting":                 {with("x", strings.Repeat("[", 1000)+strings.Repeat("]", 1000)), nil},
		"room of another gate":         {with("aud", `"drop"`), token.ErrRoom},
		"longer room of the same name": {with("aud", `"checkout-vip"`), token.ErrRoom},
		"room in capitals":             {with("aud", `"CHECKOUT"`), token.ErrRoom},
		"room in a list of one":        {with("aud", `["checkout"]`), token.ErrMalformed},
		"room among others":            {with("aud", `["drop","checkout"]`), token.ErrMalformed},
		"room empty":                   {with("aud", `""`), token.ErrMalformed},
		"issuer of another place":      {with("iss", `"staging"`), token.ErrRoom},
		"issuer empty":                 {with("iss", `""`), token.ErrRoom},
		"exp ten years ahead":          {with("exp", "2090000000"), token.ErrMalformed},
		"exp 401 days ahead":           {with("exp", fmt.Sprint(issuedAt.AddDate(0, 0, 401).Unix())), token.ErrMalformed},
		"exp 400 days ahead":           {with("exp", fmt.Sprint(issuedAt.AddDate(0, 0, 400).Unix())), nil},
		"exp beyond every calendar":    {with("exp", "9223372036854775807"), token.ErrMalformed},
		"exp beyond 64 bits":           {with("exp", "92233720368547758070"), token.ErrMalformed},
		"exp with an exponent":         {with("exp", "1e300"), token.ErrMalformed},
		"exp with a fraction":          {with("exp", "1772366481.5"), token.ErrMalformed},
		"exp negative":                 {with("exp", "-1"), token.ErrMalformed},
		"exp equal to iat":             {with("exp", fmt.Sprint(issuedAt.Unix())), token.ErrMalformed},
		"exp before iat":               {with("exp", fmt.Sprint(issuedAt.Unix()-1)), token.ErrMalformed},
		"iat negative":                 {with("iat", "-1"), token.ErrMalformed},
		"stage unknown":                {with("stage", `"waiting"`), token.ErrMalformed},
		"stage empty":                  {with("stage", `""`), token.ErrMalformed},
		"visitor too short":            {with("sub", `"ABC"`), token.ErrMalformed},
		"visitor with a header break":  {with("sub", `"ABCDEFGHIJKLMNOPQRSTUVWX\r\n"`), token.ErrMalformed},
		"admission empty":              {with("jti", `""`), token.ErrMalformed},
		"admission with a space":       {with("jti", `"a b"`), token.ErrMalformed},
		"end negative":                 {with("end", "-1"), token.ErrMalformed},
		"end beyond exact numbers":     {with("end", "9007199254740992"), token.ErrMalformed},
		"place beyond exact numbers":   {with("place", "9007199254740992"), token.ErrMalformed},
		"an unknown claim beside":      {with("later", `{"a":1}`), nil},
		"an unknown claim in capitals": {with("LATER", `1`), nil},
		"an unknown claim twice":       {`{"later":1,"later":2,` + with("iss", `"queuegate"`)[1:], token.ErrMalformed},
		"our room behind another":      {`{"aud":"drop",` + with("iss", `"queuegate"`)[1:], token.ErrMalformed},
		"another room behind ours":     {`{"aud":"checkout",` + with("aud", `"drop"`)[1:], token.ErrMalformed},
		"an escaped name twice":        {`{"\u0061ud":"drop",` + with("iss", `"queuegate"`)[1:], token.ErrMalformed},
		"a twin that is null":          {`{"exp":null,` + with("iss", `"queuegate"`)[1:], token.ErrMalformed},
		"a long s for an s":            {strings.Replace(with("iss", `"queuegate"`), `"sub"`, `"\u017fub"`, 1), token.ErrMalformed},
		"a raw long s for an s":        {strings.Replace(with("iss", `"queuegate"`), `"sub"`, "\"\u017fub\"", 1), token.ErrMalformed},
		"brackets in a value":          {with("later", `"}],{[\"aud\":"`), nil},
		"a twin inside an unknown one": {with("later", `{"aud":"drop","aud":["drop"]}`), nil},
	}
	for claim, value := range base {
		attacks[claim+" twice"] = attack{`{"` + claim + `":` + string(value) + "," + with("iss", `"queuegate"`)[1:], token.ErrMalformed}
		attacks[claim+" in capitals"] = attack{strings.Replace(with("iss", `"queuegate"`), `"`+claim+`"`, `"`+strings.ToUpper(claim)+`"`, 1), token.ErrMalformed}
		attacks[claim+" beside its capitals"] = attack{`{"` + strings.ToUpper(claim) + `":` + string(value) + "," + with("iss", `"queuegate"`)[1:], token.ErrMalformed}
		attacks[claim+" missing"] = attack{with(claim, ""), token.ErrMalformed}
		attacks[claim+" null"] = attack{with(claim, "null"), token.ErrMalformed}
		attacks[claim+" a list"] = attack{with(claim, "["+string(value)+"]"), token.ErrMalformed}
		attacks[claim+" an object"] = attack{with(claim, `{"a":`+string(value)+"}"), token.ErrMalformed}
		attacks[claim+" a truth value"] = attack{with(claim, "true"), token.ErrMalformed}
		if value[0] == '"' {
			attacks[claim+" a number"] = attack{with(claim, "1772366481"), token.ErrMalformed}
		} else {
			attacks[claim+" a number in a string"] = attack{with(claim, `"`+string(value)+`"`), token.ErrMalformed}
		}
	}
	for name, tt := range attacks {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, err := a.Verify(forge(t, jwt.SigningMethodHS256, secret, header, tt.claims), room)
			if tt.want == nil {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, tt.want)
			require.Zero(t, p)
		})
	}
}

func TestSignedClaimsThatAreNotBase64AreRefused(t *testing.T) {
	t.Parallel()
	a := authority(t, token.Options{Secret: secret})
	header, _, _ := strings.Cut(sign(t, a, samplePass()), ".")
	for name, claims := range map[string]string{
		"a length no bytes have":      "AAAAA",
		"unused bits in the last one": b64("{}")[:2] + "1",
	} {
		sig, err := jwt.SigningMethodHS256.Sign(header+"."+claims, secret)
		require.NoError(t, err)
		_, err = a.Verify(header+"."+claims+"."+base64.RawURLEncoding.EncodeToString(sig), room)
		require.ErrorIs(t, err, token.ErrMalformed, name)
	}
}

func TestEmptyRoomOpensNothing(t *testing.T) {
	t.Parallel()
	a := authority(t, token.Options{Secret: secret})
	_, err := a.Verify(sign(t, a, samplePass()), "")
	require.ErrorIs(t, err, token.ErrRoom)
}

func TestOnlyOneOf64SpellingsOfTheLastCharacterIsAccepted(t *testing.T) {
	t.Parallel()
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	options := map[string]token.Options{"HS256": {Secret: secret}}
	for name, private := range privateKeys(t) {
		options[name] = token.Options{PrivateKey: private}
	}
	tickets := newTickets(t)
	for name, o := range options {
		a := authority(t, o)
		good := sign(t, a, samplePass())
		for _, end := range []int{len(strings.Split(good, ".")[0]), strings.LastIndexByte(good, '.'), len(good)} {
			accepted := 0
			for _, c := range alphabet {
				if _, err := a.Verify(good[:end-1]+string(c)+good[end:], room); err == nil {
					accepted++
				}
			}
			require.Equal(t, 1, accepted, "%s, part that ends at %d", name, end)
		}
	}
	// Return moves the end of the ticket over the three lengths that base64 knows.
	for _, back := range []string{"", "/", "/a", "/ab"} {
		k := sampleTicket()
		k.Return = back
		good, accepted := tickets.Seal(room, k), 0
		for _, c := range alphabet {
			if _, err := tickets.Open(room, good[:len(good)-1]+string(c)); err == nil {
				accepted++
			}
		}
		require.Equal(t, 1, accepted, "ticket with return %q", back)
	}
}

func TestPublicKeyIsNoHMACSecret(t *testing.T) {
	t.Parallel()
	for name, private := range privateKeys(t) {
		a := authority(t, token.Options{PrivateKey: private})
		good := sign(t, a, samplePass())
		header, claims := part(t, good, 0), part(t, good, 1)
		der, err := x509.MarshalPKIXPublicKey(private.Public())
		require.NoError(t, err)
		pemKey := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
		for _, key := range [][]byte{der, pemKey, bytes.TrimSpace(pemKey)} {
			for _, h := range []string{header, strings.Replace(header, name, "HS256", 1)} {
				_, err = a.Verify(forge(t, jwt.SigningMethodHS256, key, h, claims), room)
				require.ErrorIs(t, err, token.ErrSignature)
			}
		}
	}
}

func TestUnlistedSecretBesideAPrivateKeyIsNotAccepted(t *testing.T) {
	t.Parallel()
	private := privateKeys(t)["EdDSA"]
	raw := sign(t, authority(t, token.Options{Secret: secret}), samplePass())
	_, err := authority(t, token.Options{Secret: secret, PrivateKey: private}).Verify(raw, room)
	require.ErrorIs(t, err, token.ErrSignature)
	_, err = authority(t, token.Options{Previous: [][]byte{secret}, PrivateKey: private}).Verify(raw, room)
	require.NoError(t, err)
}

func TestVerifyAtRefusesFromTheMomentOfExp(t *testing.T) {
	t.Parallel()
	a := authority(t, token.Options{Secret: secret})
	p := samplePass()
	raw := sign(t, a, p)
	for name, tt := range map[string]struct {
		now  time.Time
		want error
	}{
		"a millisecond before":                {p.Expires.Add(-time.Millisecond), nil},
		"the very moment":                     {p.Expires, token.ErrExpired},
		"the very moment in another zone":     {p.Expires.In(time.FixedZone("KST", 9*3600)), token.ErrExpired},
		"a day after":                         {p.Expires.AddDate(0, 0, 1), token.ErrExpired},
		"a verifier whose clock is behind":    {p.IssuedAt.Add(-20 * time.Second), nil},
		"a verifier with no clock, year zero": {time.Time{}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := a.VerifyAt(raw, room, tt.now)
			require.ErrorIs(t, err, tt.want)
			if tt.want != nil {
				require.Zero(t, got)
			} else {
				require.Equal(t, p, got)
			}
			_, err = a.Verify(raw, room)
			require.NoError(t, err, "Verify leaves the time to the gate")
		})
	}
}

// An expired token with a bad signature must never be taken for one that is merely
// expired and could be renewed.
func TestExpiredAndForgedIsForged(t *testing.T) {
	t.Parallel()
	a := authority(t, token.Options{Secret: secret})
	raw := sign(t, authority(t, token.Options{Secret: oldSecret}), samplePass())
	_, err := a.VerifyAt(raw, room, issuedAt.AddDate(1, 0, 0))
	require.ErrorIs(t, err, token.ErrSignature)
	require.NotErrorIs(t, err, token.ErrExpired)
	_, err = a.VerifyAt(sign(t, a, samplePass()), "drop", issuedAt.AddDate(1, 0, 0))
	require.ErrorIs(t, err, token.ErrRoom)
	require.NotErrorIs(t, err, token.ErrExpired)
}

func TestGatesWithOneSecretAcceptEachOthersTokensAlsoAfterARestart(t *testing.T) {
	t.Parallel()
	raw := sign(t, authority(t, token.Options{Secret: secret}), samplePass())
	for range 2 {
		_, err := authority(t, token.Options{Secret: secret}).Verify(raw, room)
		require.NoError(t, err)
	}
}

func TestRotationOverARollingRestartThrowsNobodyOut(t *testing.T) {
	t.Parallel()
	keys := privateKeys(t)
	for name, rotation := range map[string][3]token.Options{ // before, both known, moved
		"secret to secret": {
			{Secret: oldSecret},
			{Secret: oldSecret, Previous: [][]byte{secret}},
			{Secret: secret, Previous: [][]byte{oldSecret}},
		},
		"secret to EdDSA": {
			{Secret: oldSecret},
			{Secret: oldSecret, PreviousPublic: []crypto.PublicKey{keys["EdDSA"].Public()}},
			{PrivateKey: keys["EdDSA"], Previous: [][]byte{oldSecret}},
		},
		"EdDSA to ES256": {
			{PrivateKey: keys["EdDSA"]},
			{PrivateKey: keys["EdDSA"], PreviousPublic: []crypto.PublicKey{keys["ES256"].Public()}},
			{PrivateKey: keys["ES256"], PreviousPublic: []crypto.PublicKey{keys["EdDSA"].Public()}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			first, second := authority(t, rotation[0]), authority(t, rotation[0])
			both := func() {
				for _, signer := range []*token.Authority{first, second} {
					raw := sign(t, signer, samplePass())
					for _, verifier := range []*token.Authority{first, second} {
						got, err := verifier.Verify(raw, room)
						require.NoError(t, err)
						require.Equal(t, samplePass(), got)
					}
				}
			}
			before := sign(t, first, samplePass())
			for _, step := range rotation[1:] {
				first = authority(t, step)
				both() // one gate restarted, the other not yet
				second = authority(t, step)
				both()
				_, err := second.Verify(before, room)
				require.NoError(t, err, "who was inside before stays inside")
			}
			last := rotation[2]
			last.Previous, last.PreviousPublic = nil, nil
			_, err := authority(t, last).Verify(before, room)
			require.ErrorIs(t, err, token.ErrSignature, "a key taken off the list is not accepted")
		})
	}
}

func TestOtherVerifiersAcceptOurTokensWithTheLibraryAlone(t *testing.T) {
	t.Parallel()
	ed := privateKeys(t)["EdDSA"]
	for alg, tt := range map[string]struct {
		o   token.Options
		key any
	}{
		"HS256": {token.Options{Secret: secret}, secret},
		"EdDSA": {token.Options{PrivateKey: ed}, ed.Public()},
	} {
		raw := sign(t, authority(t, tt.o), samplePass())
		parser := jwt.NewParser(jwt.WithValidMethods([]string{alg}), jwt.WithStrictDecoding(), jwt.WithIssuer(issuer),
			jwt.WithAudience(room), jwt.WithExpirationRequired(), jwt.WithIssuedAt(),
			jwt.WithTimeFunc(func() time.Time { return issuedAt.Add(time.Second) }))
		parsed, err := parser.Parse(raw, func(*jwt.Token) (any, error) { return tt.key, nil })
		require.NoError(t, err, alg)
		require.Equal(t, "queuegate-entry+jwt", parsed.Header["typ"])
		subject, err := parsed.Claims.GetSubject()
		require.NoError(t, err)
		require.Equal(t, visitor, subject)
	}
}

func TestKidTellsNothingAboutTheSecret(t *testing.T) {
	t.Parallel()
	kid := func(s []byte) string {
		var h struct{ Kid string }
		require.NoError(t, json.Unmarshal([]byte(part(t, sign(t, authority(t, token.Options{Secret: s}), samplePass()), 0)), &h))
		return h.Kid
	}
	require.Len(t, kid(secret), 12)
	require.Equal(t, kid(secret), kid(bytes.Clone(secret)))
	require.NotEqual(t, kid(secret), kid(oldSecret))
	require.NotEqual(t, kid(secret), kid(append(bytes.Clone(secret), 'x')))
}

func TestPrintingShowsNoKey(t *testing.T) {
	t.Parallel()
	a := authority(t, token.Options{Secret: secret, Previous: [][]byte{oldSecret}})
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%x", "%q", "%d"} {
		require.Equal(t, "token.Authority", fmt.Sprintf(format, a))
		require.Equal(t, "token.Tickets", fmt.Sprintf(format, newTickets(t)))
	}
}
