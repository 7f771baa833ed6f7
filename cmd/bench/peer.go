package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// peers are what the gate is compared with, each a process: this program, started
// as bench peer NAME ARGUMENTS.
func peers() map[string]func(args []string) (http.Handler, error) {
	return map[string]func([]string) (http.Handler, error){
		"shop":  newShop,
		"till":  newTill,
		"bare":  newBare,
		"bytes": newBytes,
		"usual": newUsual,
	}
}

// peerAddress is what a peer says when it listens.
type peerAddress struct{ URL, Stats string }

// servePeer runs one peer until it is ended.
func servePeer(ctx context.Context, args []string, stdout io.Writer) error {
	if len(args) == 0 || peers()[args[0]] == nil {
		return usageError{fmt.Errorf("no such peer: %q", args)}
	}
	handler, err := peers()[args[0]](args[1:])
	if err != nil {
		return err
	}
	address := peerAddress{}
	var lc net.ListenConfig
	ended := make(chan error, 2)
	for _, s := range []struct {
		handler http.Handler
		url     *string
	}{{handler, &address.URL}, {http.HandlerFunc(serveMallocs), &address.Stats}} {
		l, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		*s.url = "http://" + l.Addr().String()
		server := &http.Server{Handler: s.handler, ReadHeaderTimeout: time.Minute}
		go func() { ended <- server.Serve(l) }()
	}
	if err := json.NewEncoder(stdout).Encode(address); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return nil
	case err := <-ended:
		return err
	}
}

// serveMallocs tells how often this process has allocated.
func serveMallocs(w http.ResponseWriter, _ *http.Request) {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	_, _ = fmt.Fprint(w, m.Mallocs)
}

// peer is a running one.
type peer struct {
	url, stats string
	process    *process
}

// startPeer starts a peer.
func (b *bench) startPeer(ctx context.Context, args ...string) (*peer, error) {
	p, err := b.start(args[0], b.self, append([]string{"peer"}, args...)...)
	if err != nil {
		return nil, err
	}
	var address peerAddress
	err = p.await(ctx, func() bool { return json.Unmarshal([]byte(p.words()), &address) == nil })
	return &peer{address.URL, address.Stats, p}, err
}

// mallocs is how often the peer has allocated.
func (p *peer) mallocs(ctx context.Context) (float64, error) {
	text, err := get(ctx, p.stats)
	if err != nil {
		return 0, err
	}
	return strconv.ParseFloat(text, 64)
}

// newShop is the shop behind all proxies: it answers at once, with a small page.
func newShop([]string) (http.Handler, error) {
	page := []byte("<!doctype html><title>Checkout</title>" + strings.Repeat("<p>One lantern, 12.00</p>\n", 40))
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["Content-Type"] = []string{"text/html; charset=utf-8"}
		_, _ = w.Write(page)
	}), nil
}

// newTill is a shop that is done with everybody after one request: it gives the pass
// back, and counts. /served tells how many came. After the first request of a
// connection it answers by hand, for it shares the processors with the gate.
func newTill(args []string) (http.Handler, error) {
	shop, err := newShop(args)
	if err != nil {
		return nil, err
	}
	page := httptest.NewRecorder()
	page.Header().Set("X-Queuegate-Command", "release")
	shop.ServeHTTP(page, nil)
	page.Header().Set("Content-Length", strconv.Itoa(page.Body.Len()))
	var head bytes.Buffer
	_ = page.Header().Write(&head)
	answer := fmt.Appendf(nil, "HTTP/1.1 200 OK\r\n%s\r\n%s", head.Bytes(), page.Body.Bytes())
	var served atomic.Int64
	mux := http.NewServeMux()
	mux.HandleFunc(shopPath, func(w http.ResponseWriter, _ *http.Request) {
		conn, buffered, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer func() { _ = conn.Close() }()
		for err == nil { // once for the request that was read before
			served.Add(1)
			if _, err = conn.Write(answer); err == nil {
				err = skipHead(buffered.Reader)
			}
		}
	})
	mux.HandleFunc("/served", func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, served.Load()) })
	return mux, nil
}

// skipHead reads the next request, which has no body.
func skipHead(r *bufio.Reader) error {
	for {
		line, err := r.ReadSlice('\n')
		if err != nil || len(line) <= 2 {
			return err
		}
	}
}

// recorded is an answer to be given again.
type recorded struct {
	Status int
	Header http.Header
	Body   []byte
}

// newBytes answers with what a file holds, and does nothing else: no handler of
// net/http that writes those bytes is faster.
func newBytes(args []string) (http.Handler, error) {
	if len(args) != 1 {
		return nil, errors.New("bytes: which file?")
	}
	r, err := readRecorded(args[0])
	if err != nil {
		return nil, err
	}
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		h := w.Header()
		for name, values := range r.Header {
			h[name] = values
		}
		w.WriteHeader(r.Status)
		_, _ = w.Write(r.Body)
	}), nil
}
