package main

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/queuegate/queuegate/examples/shop/kafka"
	"github.com/queuegate/queuegate/examples/shop/order"
	"github.com/queuegate/queuegate/examples/shop/stock"
	"github.com/queuegate/queuegate/queue/queuetest"
)

// patience is how long a test waits for what has to happen, on a machine that is
// busy with other tests.
const patience = 5 * time.Minute

// asking is a client that does not wait for ever.
func asking() *http.Client { return &http.Client{Timeout: 2 * patience} }

// tick is how often it looks.
const tick = 10 * time.Millisecond

// TestMain is also the shop: a test starts its own binary as one, and may have it
// killed at a step.
func TestMain(m *testing.M) {
	redis.SetLogger(quiet{}) // a server that is about to answer, or is meant not to
	if os.Getenv("SHOP_TEST_RUN") == "" {
		os.Exit(m.Run())
	}
	deadly := order.Step(os.Getenv("SHOP_TEST_KILL_AT"))
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	err := run(ctx, os.LookupEnv, os.Stderr, func(s order.Step) {
		if s == deadly {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {} // the signal is on its way
		}
	})
	stop()
	if err != nil {
		_, _ = io.WriteString(os.Stderr, err.Error())
		os.Exit(1)
	}
	os.Exit(0)
}

// quiet keeps what go-redis says of failed connections out of the tests' output.
type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

// world is everything around the shop, which outlives it.
type world struct {
	t        *testing.T
	database string
	redis    *queuetest.Server
	shelf    *stock.Stock
	kafka    *cluster
	gate     *gateDouble
	shops    []*shopProcess
}

// cluster is a Kafka in this process; nil is one that is away.
type cluster struct {
	fake *kfake.Cluster
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	fake, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(kafka.Partitions, kafka.Topic),
		kfake.GroupMinSessionTimeout(100*time.Millisecond))
	require.NoError(t, err)
	t.Cleanup(fake.Close)
	return &cluster{fake: fake}
}

// brokers are the addresses of the cluster, or one at which nobody is.
func (c *cluster) brokers() []string {
	if c == nil {
		return []string{"127.0.0.1:1"}
	}
	return c.fake.ListenAddrs()
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, database: filepath.Join(t.TempDir(), "shop.db"), redis: queuetest.Start(t), gate: newGateDouble(t)}
	w.kafka = newCluster(t)
	client := w.redis.Client(t)
	t.Cleanup(func() { _ = client.Close() })
	var err error
	w.shelf, err = stock.New(client, stock.Options{})
	require.NoError(t, err)
	return w
}

// gateDouble is a gate that notes what the shop tells it.
type gateDouble struct {
	url string

	mu       sync.Mutex
	away     bool
	released map[string]int // by pass
	refused  int
	reports  int
}

func newGateDouble(t *testing.T) *gateDouble {
	g := &gateDouble{released: map[string]int{}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g.mu.Lock()
		defer g.mu.Unlock()
		switch {
		case g.away:
			if r.Header.Get("X-Entry-Token") != "" {
				g.refused++
			}
			w.WriteHeader(http.StatusServiceUnavailable)
		case r.URL.Path == "/_queue/checkout/release":
			g.released[r.Header.Get("X-Entry-Token")]++
		default:
			g.reports++
		}
	}))
	t.Cleanup(server.Close)
	g.url = server.URL
	return g
}

func (g *gateDouble) setAway(away bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.away = away
}

// said is how often the shop said that a pass is over, and how often it was not heard.
func (g *gateDouble) said(pass string) (released, refused int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.released[pass], g.refused
}

// shopProcess is one running shop.
type shopProcess struct {
	t    *testing.T
	url  string
	cmd  *exec.Cmd
	log  *syncBuffer
	dead chan struct{}
}

// syncBuffer is a buffer that is read while somebody writes.
type syncBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// open starts a shop in the world and waits until it answers. Later variables win.
func (w *world) open(env ...string) *shopProcess {
	w.t.Helper()
	address := "127.0.0.1:" + queuetest.FreePort(w.t)
	p := &shopProcess{t: w.t, url: "http://" + address, log: &syncBuffer{}, dead: make(chan struct{})}
	p.cmd = exec.Command(os.Args[0])
	p.cmd.Env = append(os.Environ(), append([]string{
		"SHOP_TEST_RUN=1", "SHOP_LISTEN=" + address, "SHOP_DATABASE=" + w.database, "SHOP_REDIS_URL=" + w.redis.URL,
		"SHOP_KAFKA_BROKERS=" + strings.Join(w.kafka.brokers(), ","), "SHOP_GATE_URL=" + w.gate.url,
		"SHOP_RETRY=200ms", "SHOP_KAFKA_SESSION=1s", "SHOP_PRODUCTS=lantern=100",
		"SHOP_DATABASE_BUSY=60s", // a busy disk is late by itself
	}, env...)...)
	p.cmd.Stderr = p.log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	require.NoError(w.t, p.cmd.Start())
	go func() {
		_ = p.cmd.Wait()
		close(p.dead)
	}()
	w.t.Cleanup(func() {
		p.kill()
		if w.t.Failed() {
			w.t.Log("the shop's log:\n", p.log.String())
		}
	})
	for _, set := range env {
		if listen, ok := strings.CutPrefix(set, "SHOP_LISTEN="); ok {
			p.url = "http://" + listen
		}
	}
	require.Eventually(w.t, func() bool {
		answer, err := asking().Get(p.url + "/healthz") //nolint:noctx // a probe of this machine
		if err == nil {
			_ = answer.Body.Close()
		}
		return err == nil || p.isDead()
	}, patience, tick)
	w.shops = append(w.shops, p)
	w.awaitConsumers()
	return p
}

// awaitConsumers waits until all living shops, and no dead one, are in the group.
// The fake Kafka never forgets who was killed while it joined, as a real one does.
func (w *world) awaitConsumers() {
	w.t.Helper()
	if w.kafka == nil {
		return
	}
	living := 0
	for _, p := range w.shops {
		if !p.isDead() {
			living += 2
		}
	}
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	_, err := w.kafka.fake.WaitGroupStable(ctx, kafka.Group, living)
	require.NoError(w.t, err)
}

func (p *shopProcess) kill() {
	_ = p.cmd.Process.Kill()
	<-p.dead
}

func (p *shopProcess) isDead() bool {
	select {
	case <-p.dead:
		return true
	default:
		return false
	}
}

func (p *shopProcess) awaitDeath() {
	p.t.Helper()
	select {
	case <-p.dead:
	case <-time.After(patience):
		require.Fail(p.t, "the shop was not killed")
	}
}

// answer is what the shop said to an order.
type answer struct {
	Code  int
	Order string `json:"order"`
	Error string `json:"error"`
	body  string
	head  http.Header
}

// order sends an order for lanterns and returns the answer; a shop that dies has none.
func (p *shopProcess) order(path, visitor, key string, quantity string) (answer, error) {
	r, err := http.NewRequestWithContext(context.Background(), http.MethodPost, p.url+path,
		strings.NewReader(`{"product_id": "lantern", "quantity": `+quantity+`}`))
	if err != nil {
		return answer{}, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Idempotency-Key", key)
	r.Header.Set("X-Queuegate-Visitor", visitor)
	r.Header.Set("X-Queuegate-Room", "checkout")
	r.Header.Set("X-Entry-Token", "pass-of-"+visitor)
	reply, err := asking().Do(r)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = reply.Body.Close() }()
	text, err := io.ReadAll(reply.Body)
	if err != nil {
		return answer{}, err
	}
	a := answer{Code: reply.StatusCode, body: string(text), head: reply.Header}
	return a, json.Unmarshal(text, &a)
}

// mustOrder is an order that has to be taken.
func (p *shopProcess) mustOrder(visitor, key string) answer {
	p.t.Helper()
	a, err := p.order("/orders", visitor, key, "1")
	require.NoError(p.t, err)
	require.Equal(p.t, http.StatusAccepted, a.Code, a.body)
	return a
}

// status asks how far an order is.
func (p *shopProcess) status(id string) string {
	reply, err := asking().Get(p.url + "/orders/" + id) //nolint:noctx // on this machine
	if err != nil {
		return err.Error()
	}
	defer func() { _ = reply.Body.Close() }()
	var standing struct{ Status string }
	_ = json.NewDecoder(reply.Body).Decode(&standing) // an empty status says enough
	return standing.Status
}

func (p *shopProcess) awaitStatus(id, want string) {
	p.t.Helper()
	require.Eventually(p.t, func() bool { return p.status(id) == want }, patience, tick,
		"order %s does not become %s", id, want)
}

// count asks the shop's database, beside the shop.
func (w *world) count(query string, args ...any) int {
	w.t.Helper()
	db, err := sql.Open("sqlite", "file:"+w.database+"?_pragma=busy_timeout(20000)")
	require.NoError(w.t, err)
	defer func() { _ = db.Close() }()
	var n int
	require.NoError(w.t, db.QueryRow(query, args...).Scan(&n))
	return n
}

// await waits until the database says so.
func (w *world) await(want int, query string, args ...any) {
	w.t.Helper()
	require.Eventually(w.t, func() bool { return w.count(query, args...) == want }, patience, tick,
		"%s does not become %d", query, want)
}

// awaitLeft waits until the stock has that many left and holds nothing.
func (w *world) awaitLeft(want int) {
	w.t.Helper()
	var count stock.Count
	require.Eventually(w.t, func() bool {
		var err error
		count, err = w.shelf.Look(context.Background(), "lantern")
		return err == nil && count.Known && count.Left == want && count.Holds == 0
	}, patience, tick, "the stock does not become %d: %+v", want, &count)
}

func (w *world) client() *redis.Client { return w.redis.Client(w.t) }
