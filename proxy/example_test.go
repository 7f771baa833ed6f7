package proxy_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/queuegate/queuegate/proxy"
	"github.com/queuegate/queuegate/proxy/route"
	"github.com/queuegate/queuegate/queue"
	"github.com/queuegate/queuegate/token"
)

// A gate around the handler of a program of your own. There are no globals: make
// as many as you like.
func Example() {
	shop := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "the shop, room %q", r.Header.Get("X-Queuegate-Room"))
	})
	secret := []byte("at least 32 bytes, the same for all gates")
	client, err := queue.NewClient(clientOptions()) // queue.ClientOptions{URL: "redis://127.0.0.1:6379"}
	try(err)
	defer client.Close()
	line, err := queue.New(queue.Options{
		Redis: client, Hints: client, Room: "checkout", Limits: queue.Limits{Slots: 1}, Timeout: 5 * time.Second,
	})
	try(err)
	try(line.Configure(context.Background())) // else the line does when it runs
	passes, err := token.New(token.Options{Issuer: "shop", Secret: secret})
	try(err)
	tickets, err := token.NewTickets(secret, "shop")
	try(err)
	gate, err := proxy.New(proxy.Options{
		Upstream: proxy.Upstream{Handler: shop}, Passes: passes, Tickets: tickets, IdentitySecret: secret,
		RedisTimeout: 5 * time.Second, // 100 ms where people wait for it
		Rooms:        []proxy.Room{{Name: "checkout", Line: line, Protect: []route.Rule{{Paths: []string{"/checkout"}}}}},
	})
	try(err)
	defer gate.Close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go line.Run(ctx)
	server := httptest.NewServer(gate) // http.ListenAndServe(":8080", gate)
	defer server.Close()

	for _, path := range []string{"/", "/checkout", "/checkout"} {
		answer, err := http.Get(server.URL + path)
		try(err)
		body, err := io.ReadAll(answer.Body)
		try(err)
		if answer.StatusCode != http.StatusOK {
			body = []byte("in line")
		}
		fmt.Printf("%-9s %d %s\n", path, answer.StatusCode, body)
	}
	// Output:
	// /         200 the shop, room ""
	// /checkout 200 the shop, room "checkout"
	// /checkout 429 in line
}

func try(err error) {
	if err != nil {
		panic(err)
	}
}

// clientOptions lead to a Redis in this process.
func clientOptions() queue.ClientOptions {
	m := miniredis.NewMiniRedis()
	return queue.ClientOptions{
		URL:  "redis://in-memory:6379",
		Dial: func(context.Context, string, string) (net.Conn, error) { return m.Dial() },
	}
}
