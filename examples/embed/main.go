// Command embed is a shop with a waiting room inside: the gate as a handler of
// net/http around the program's own. Try it with Redis at hand:
//
//	REDIS_URL=redis://127.0.0.1:6379 SECRET=$(openssl rand -hex 32) go run ./examples/embed
package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/queuegate/queuegate/proxy"
	"github.com/queuegate/queuegate/proxy/route"
	"github.com/queuegate/queuegate/queue"
	"github.com/queuegate/queuegate/token"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := serve(ctx, os.Getenv("REDIS_URL"), os.Getenv("SECRET"), "127.0.0.1:8080"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// shop is the program that was there before.
func shop(w http.ResponseWriter, r *http.Request) {
	fmt.Fprintf(w, "%s for admission %q\n", r.URL.Path, r.Header.Get("X-Queuegate-Admission"))
}

// serve runs the shop behind its gate until ctx ends and the last request is served.
func serve(ctx context.Context, redisURL, secret, addr string) error {
	client, err := queue.NewClient(queue.ClientOptions{URL: redisURL})
	if err != nil {
		return err
	}
	defer client.Close()
	line, err1 := queue.New(queue.Options{Redis: client, Hints: client, Room: "checkout", Limits: queue.Limits{Slots: 200, PerMinute: 600}})
	passes, err2 := token.New(token.Options{Issuer: "shop", Secret: []byte(secret)})
	tickets, err3 := token.NewTickets([]byte(secret), "shop")
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}
	gate, err := proxy.New(proxy.Options{
		Upstream: proxy.Upstream{Handler: http.HandlerFunc(shop)},
		Passes:   passes, Tickets: tickets, IdentitySecret: []byte(secret),
		Rooms: []proxy.Room{{Name: "checkout", Line: line, Protect: []route.Rule{{Paths: []string{"/checkout", "/orders"}}}}},
	})
	if err != nil {
		return err
	}
	defer gate.Close()
	lines, stop := context.WithCancel(context.WithoutCancel(ctx)) // they go on until the last request is served
	defer stop()
	go func() { _ = line.Run(lines) }()
	server, err := proxy.NewServer(proxy.ServerOptions{Listen: addr, Public: gate, Stopping: gate.CloseStreams, Grace: 30 * time.Second})
	if err != nil {
		return err
	}
	if err := server.Listen(); err != nil {
		return err
	}
	return server.Serve(ctx)
}
