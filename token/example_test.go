package token_test

import (
	"crypto/ed25519"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/queuegate/queuegate/token"
)

// A shop in Go that checks passes itself. It holds the public keys that the gate
// publishes, here as a document that was fetched from https://shop.example/_queue/jwks.json;
// beside a gate that signs with a secret it would give VerifierOptions.Secrets instead.
func ExampleMiddleware() {
	jwks, err := exampleGate().JWKS()
	if err != nil {
		log.Fatal(err)
	}
	keys, err := token.ParseJWKS(jwks)
	if err != nil {
		log.Fatal(err)
	}
	verifier, err := token.NewVerifier(token.VerifierOptions{
		Issuer: "queuegate", Installation: "queuegate/qg", // the gate's token.issuer, and with its redis.key_prefix
		PublicKeys: keys,
	})
	if err != nil {
		log.Fatal(err)
	}
	cache, err := token.NewCache(verifier, 0) // a visitor's second request costs a hash
	if err != nil {
		log.Fatal(err)
	}
	needsPass, err := token.Middleware(token.MiddlewareOptions{Checker: cache, Room: "checkout"})
	if err != nil {
		log.Fatal(err)
	}
	order := func(w http.ResponseWriter, r *http.Request) {
		pass, _ := token.FromContext(r.Context())
		// One admission, one order: keep pass.Admission with it, unique.
		fmt.Fprintln(w, "ordered by admission", pass.Admission)
	}
	shop := http.NewServeMux()
	shop.Handle("POST /order", needsPass(http.HandlerFunc(order)))

	for _, pass := range []string{examplePass(), "made up"} {
		r := httptest.NewRequest(http.MethodPost, "/order", nil)
		r.Header.Set("X-Entry-Token", pass)
		w := httptest.NewRecorder()
		shop.ServeHTTP(w, r)
		fmt.Print(w.Code, " ", w.Body)
	}
	// Output:
	// 200 ordered by admission 1772366400000001
	// 403 {"type":"urn:queuegate:problem:no-pass","title":"Forbidden","status":403,"detail":"This needs a pass of the waiting room."}
}

// examplePass is what the gate gave to somebody a moment ago.
func examplePass() string {
	now := time.Now()
	p := samplePass()
	p.IssuedAt, p.Expires = now, now.Add(time.Minute)
	raw, err := exampleGate().Sign(p)
	if err != nil {
		log.Fatal(err)
	}
	return raw
}

// exampleGate stands for the gate.
func exampleGate() *token.Authority {
	gate, err := token.New(token.Options{
		Issuer: "queuegate", Installation: "queuegate/qg", PrivateKey: ed25519.NewKeyFromSeed(secret),
	})
	if err != nil {
		log.Fatal(err)
	}
	return gate
}
