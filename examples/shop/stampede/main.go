// Command stampede sends the same crowd to the same sale three ways: to a shop that
// reads, checks and writes; to the example shop, whose stock is atomic; and to the
// example shop behind the gate. It draws what each way came to, from the logs alone.
package main

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// options say how big the stampede is and with what.
type options struct {
	visitors, stock  int
	out              string // the folder of logs, table and chart, made anew
	gate, shop, conf string // the two programs, and the gate's file
	redis            string // the third: gate and shop share one
	payment          time.Duration
}

func main() {
	var o options
	flag.IntVar(&o.visitors, "visitors", 2000, "people who come within two seconds")
	flag.IntVar(&o.stock, "stock", 100, "what there is to sell")
	flag.StringVar(&o.out, "out", "build/stampede", "folder for logs, table and chart; what is in it is removed")
	flag.StringVar(&o.gate, "gate", "bin/queuegate", "the gate")
	flag.StringVar(&o.shop, "shop", "bin/shop", "the example shop")
	flag.StringVar(&o.conf, "config", "examples/shop/queuegate.yaml", "the gate's file")
	flag.StringVar(&o.redis, "redis", "redis-server", "the Redis of gate and shop")
	flag.DurationVar(&o.payment, "payment", 50*time.Millisecond, "how long a payment takes, in both shops")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, o, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "stampede:", err)
		os.Exit(1)
	}
}

// run is the whole program.
func run(ctx context.Context, o options, out io.Writer) error {
	if err := os.RemoveAll(o.out); err != nil {
		return err
	}
	if err := os.MkdirAll(o.out, 0o750); err != nil {
		return err
	}
	all := map[string]figures{}
	for _, way := range ways() {
		fmt.Fprintf(out, "%s: %d visitors, %d in stock ...\n", titles()[way], o.visitors, o.stock)
		if err := runWay(ctx, o, way); err != nil {
			return fmt.Errorf("%s: %w", way, err)
		}
		var err error
		if all[way], err = readFigures(o.out, way); err != nil {
			return err
		}
	}
	fmt.Fprintln(out)
	if err := writeTable(out, o.visitors, o.stock, all); err != nil {
		return err
	}
	for name, write := range map[string]func(io.Writer, int, int, map[string]figures) error{
		"table.md": writeTable, "chart.svg": writeChart,
	} {
		file, err := os.Create(filepath.Join(o.out, name))
		if err != nil {
			return err
		}
		if err := errors.Join(write(file, o.visitors, o.stock, all), file.Close()); err != nil {
			return err
		}
	}
	fmt.Fprintf(out, "\ndrawn in %s, from the logs beside it\n", filepath.Join(o.out, "chart.svg"))
	return nil
}

// runWay runs one way, from the start of its programs to their end.
func runWay(ctx context.Context, o options, way string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	shopLog, err := os.Create(filepath.Join(o.out, way+".shop.log"))
	if err != nil {
		return err
	}
	defer func() { _ = shopLog.Close() }()
	peopleLog, err := os.Create(filepath.Join(o.out, way+".people.log"))
	if err != nil {
		return err
	}
	defer func() { _ = peopleLog.Close() }()

	if way == wayNaive {
		base, stop, err := startNaive(ctx, filepath.Join(o.out, way+".db"), o.stock, o.payment, slog.New(slog.NewJSONHandler(shopLog, nil)))
		if err != nil {
			return err
		}
		defer stop()
		return errors.Join(stampede(ctx, base, false, o.visitors, peopleLog), ctx.Err())
	}
	return runShop(ctx, o, way, shopLog, peopleLog)
}

// runShop runs the example shop, with the gate in front or without.
func runShop(ctx context.Context, o options, way string, shopLog, peopleLog io.Writer) error {
	addresses, err := freeAddresses(3)
	if err != nil {
		return err
	}
	shop, gate, redis := addresses[0], addresses[1], addresses[2]
	stopRedis, err := startRedis(ctx, o, redis)
	if err != nil {
		return err
	}
	defer stopRedis()
	base, gateURL := "http://"+shop, ""
	if way == wayGate {
		base = "http://" + gate
		gateURL = base
	}
	stopShop, err := start(ctx, "http://"+shop+"/healthz", shopLog, o.shop, nil,
		"SHOP_LISTEN="+shop, "SHOP_DATABASE="+filepath.Join(o.out, way+".db"), "SHOP_REDIS_URL=redis://"+redis, fmt.Sprintf("SHOP_PRODUCTS=lantern=%d", o.stock),
		"SHOP_PAYMENT="+o.payment.String(), "SHOP_GATE_URL="+gateURL)
	if err != nil {
		return err
	}
	defer stopShop()
	if way == wayGate {
		stopGate, err := startGate(ctx, o, shop, gate, redis)
		if err != nil {
			return err
		}
		defer stopGate()
	}
	return errors.Join(stampede(ctx, base, way == wayGate, o.visitors, peopleLog), ctx.Err())
}

// startGate starts the gate with the example's file, at other addresses.
func startGate(ctx context.Context, o options, shop, gate, redis string) (func(), error) {
	text, err := os.ReadFile(o.conf)
	if err != nil {
		return nil, err
	}
	here := strings.NewReplacer("127.0.0.1:8080", gate, "127.0.0.1:9000", shop).Replace(string(text))
	file := filepath.Join(o.out, "queuegate.yaml")
	if err := os.WriteFile(file, []byte(here), 0o600); err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(o.out, "gate.log"))
	if err != nil {
		return nil, err
	}
	stop, err := start(ctx, "http://"+gate+"/_queue/checkout/status", log, o.gate, []string{"serve", "-c", file},
		"QUEUEGATE_REDIS_URL=redis://"+redis+"/1", "QUEUEGATE_TOKEN_SECRET="+rand.Text()+rand.Text(),
		"QUEUEGATE_ADMIN_LISTEN=127.0.0.1:0", "QUEUEGATE_SHUTDOWN_DRAIN_DELAY=0s")
	return func() {
		stop()
		_ = log.Close()
	}, err
}

// startRedis starts a Redis that keeps nothing.
func startRedis(ctx context.Context, o options, address string) (func(), error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	return start(ctx, "", nil, o.redis, []string{"--bind", host, "--port", port, "--save", "", "--appendonly", "no"})
}

// start starts a program and returns, once it answers at probe if there is one, what
// ends it.
func start(ctx context.Context, probe string, log io.Writer, program string, args []string, env ...string) (func(), error) {
	cmd := exec.CommandContext(ctx, program, args...) //nolint:gosec // the programs that the caller names
	cmd.Env = append(os.Environ(), env...)
	cmd.Stderr = log
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait() // how it ended is in its log
		close(ended)
	}()
	stop := func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-ended:
		case <-time.After(20 * time.Second):
			_ = cmd.Process.Kill()
			<-ended
		}
	}
	client := &http.Client{Timeout: time.Second}
	for probe != "" {
		select {
		case <-ended:
			return nil, fmt.Errorf("%s ended at once: see the logs", program)
		default:
		}
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, probe, http.NoBody)
		if err != nil {
			return nil, err
		}
		if answer, err := client.Do(r); err == nil {
			_ = answer.Body.Close()
			return stop, nil
		}
		if !wait(ctx, 50*time.Millisecond) {
			stop()
			return nil, ctx.Err()
		}
	}
	return stop, nil
}

// freeAddresses are addresses on this machine that nobody listens on.
func freeAddresses(n int) ([]string, error) {
	var addresses []string
	for range n {
		listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // closed before anything waits for it
		if err != nil {
			return nil, err
		}
		defer func() { _ = listener.Close() }()
		addresses = append(addresses, listener.Addr().String())
	}
	return addresses, nil
}
