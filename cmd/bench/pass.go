package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
)

const (
	shopPath = "/checkout"
	openPath = "/lanterns"
)

// measurePass compares what an admitted visitor's request costs through the gate
// and through others that decide nothing. All send the same requests: those of some
// hundred visitors inside, each with the cookie of a pass.
func (b *bench) measurePass(ctx context.Context) error {
	shop, err := b.startPeer(ctx, "shop")
	if err != nil {
		return err
	}
	bare, err := b.startPeer(ctx, "bare", shop.url)
	if err != nil {
		return err
	}
	store, err := b.startRedis(ctx)
	if err != nil {
		return err
	}
	config := gateConfig{shop: shop.url, redis: store, room: "total_active_users: 10000"}
	quiet, err := b.startGate(ctx, config)
	if err != nil {
		return err
	}
	config.log = "info"
	logs, err := b.startGate(ctx, config)
	if err != nil {
		return err
	}
	cookies, err := b.enter(ctx, quiet.url)
	if err != nil {
		return err
	}
	to := func(name, url, path string) side {
		return side{name: name, load: load{url: url, method: http.MethodGet, path: path, header: "Cookie", values: cookies}}
	}
	const open, base, gated, caddy, nginx, haproxy, direct, logging = 0, 1, 2, 3, 4, 5, 6, 7
	sides := []side{
		to("gate, unprotected", quiet.url, openPath), to("bare", bare.url, shopPath), to("gate", quiet.url, shopPath),
		caddy: {}, nginx: {}, haproxy: {}, direct: to("direct", shop.url, shopPath), logging: to("gate, logging", logs.url, shopPath),
	}
	sides[base].meter, sides[gated].meter = bare.mallocs, quiet.mallocs
	starts := map[int]func(context.Context, string) (string, error){nginx: b.startNginx, haproxy: b.startHAProxy, caddy: b.startCaddy}
	for i, start := range starts {
		if i == caddy && b.caddy == "" {
			sides[i] = sides[direct] // its row stays empty
			continue
		}
		url, err := start(ctx, shop.url)
		if err != nil {
			return err
		}
		sides[i] = to("proxy", url, shopPath)
	}
	shots, err := b.alternate(ctx, sides)
	if err != nil {
		return err
	}
	b.noteRate(passBare, shots[gated], shots[base])
	b.noteRate(passOpen, shots[open], shots[base])
	b.noteRate(passNginx, shots[gated], shots[nginx])
	b.noteRate(passHAP, shots[gated], shots[haproxy])
	b.noteRate(passDirect, shots[gated], shots[direct])
	b.noteRate(passLogged, shots[logging], shots[base])
	if b.caddy != "" {
		b.noteRate(passCaddy, shots[gated], shots[caddy])
	}
	b.note(passP99, ratio(shots[gated], shots[base], p99), "%.1f and %.1f ms", 1e3*median(shots[gated], p99), 1e3*median(shots[base], p99))
	more := make([]float64, b.rounds)
	for i := range more {
		more[i] = spent(shots[gated][i]) - spent(shots[base][i])
	}
	b.note(passAllocs, figureOf(more), "%.1f and %.1f", median(shots[gated], spent), median(shots[base], spent))
	return nil
}

// noteRate notes how many requests one side answers against another.
func (b *bench) noteRate(id rowID, this, that []shot) {
	b.note(id, ratio(this, that, rate), "%.1f and %.1f k/s", median(this, rate)/1e3, median(that, rate)/1e3)
}

// enter lets visitors in, each by a first request and one that takes the pass up, and
// writes down what their browsers send from then on.
func (b *bench) enter(ctx context.Context, url string) (file string, err error) {
	w, err := dial(ctx, url)
	if err != nil {
		return "", err
	}
	defer w.close()
	var lines strings.Builder
	for range b.passes {
		pass := ""
		for range 2 {
			h, err := w.ask(http.MethodGet, shopPath, "Accept", "application/json", passName, pass)
			if err != nil {
				return "", err
			}
			if given := h.get(passName); given != "" {
				pass = given
			}
			if h.code != http.StatusOK || pass == "" {
				return "", fmt.Errorf("nobody gets in: %d: %s", h.code, h.body)
			}
		}
		lines.WriteString("lang=en; queuegate_entry_" + room + "=" + pass + "; cart=7f3a\n")
	}
	return b.file("cookies", lines.String())
}
