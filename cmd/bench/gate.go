package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// room is the one room of all gates.
const room = "sale"

// gate is the product, as it is built.
type gate struct {
	url, admin string
	process    *process
}

// gateConfig is what gates differ in.
type gateConfig struct {
	shop  string // URL
	redis *store
	room  string // further keys of the room, in YAML
	log   string // level
}

// startGate starts a gate. It and its peers write no access log, unless the level
// says so.
func (b *bench) startGate(ctx context.Context, c gateConfig) (*gate, error) {
	if c.log == "" {
		c.log = "warn"
	}
	g := &gate{}
	p, addr, err := b.onPort(ctx, "gate", func(port string) (*process, error) {
		adminPort, err := freePort()
		if err != nil {
			return nil, err
		}
		g.admin = "http://127.0.0.1:" + adminPort
		file, err := b.file("gate-"+port+".yaml", fmt.Sprintf(`listen: 127.0.0.1:%s
admin: {listen: "127.0.0.1:%s", pprof: true}
upstream: {url: %q}
redis: {url: %q, timeout: 5s}
token: {secret: %s}
log: {level: %s}
shutdown: {drain_delay: 0s, grace: 1s}
rooms:
  - name: %s
    protect: [{paths: [/checkout]}]
    session_duration: 1h
    %s
`, port, adminPort, c.shop, c.redis.url, b.secret, c.log, room, c.room))
		if err != nil {
			return nil, err
		}
		return b.start("gate", b.gate, "serve", "-c", file)
	})
	if err != nil {
		return nil, err
	}
	g.process, g.url = p, "http://"+addr
	return g, p.await(ctx, func() bool {
		text, err := get(ctx, g.admin+"/readyz")
		return err == nil && !strings.Contains(text, `"up":false`)
	})
}

// mallocs is how often the gate has allocated.
func (g *gate) mallocs(ctx context.Context) (float64, error) {
	return g.metric(ctx, "go_memstats_mallocs_total")
}

// metric is one figure of /metrics.
func (g *gate) metric(ctx context.Context, name string) (float64, error) {
	text, err := get(ctx, g.admin+"/metrics")
	if err != nil {
		return 0, err
	}
	lines := bufio.NewScanner(strings.NewReader(text))
	for lines.Scan() {
		if value, ok := strings.CutPrefix(lines.Text(), name+" "); ok {
			return strconv.ParseFloat(value, 64)
		}
	}
	return 0, fmt.Errorf("no %s in the gate's metrics", name)
}

// get asks for a document.
func get(ctx context.Context, url string) (string, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	answer, err := (&http.Client{}).Do(r)
	if err != nil {
		return "", err
	}
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", url, answer.Status)
	}
	return string(body), err
}
