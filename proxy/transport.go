package proxy

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"
)

// Defaults and sizes of the connection to the shop.
const (
	defaultDialTimeout     = 2 * time.Second
	defaultResponseTimeout = 60 * time.Second
	defaultMaxRequest      = 15 * time.Minute
	idleConns              = 512
	idleConnTimeout        = 60 * time.Second
	expectContinueTimeout  = time.Second
	copyBuffer             = 32 << 10
)

// Upstream says where the shop is and how long the gate waits for it.
type Upstream struct {
	// URL is the shop's address: http or https and a host, nothing more. The path
	// of a request is never joined to another one: what was judged is what is sent.
	URL *url.URL
	// Handler is the shop when it runs in this process, in place of a URL. It gets
	// what a shop at an address gets, by HTTP/1.1 over connections in memory: the
	// client's address is in X-Forwarded-For, and what is in the context of the
	// gate's own request is not in its.
	Handler http.Handler
	// DialTimeout bounds connecting; zero means 2 s.
	DialTimeout time.Duration
	// ResponseTimeout bounds the wait for the response header after the request
	// was sent; zero means 60 s. It may last a sixteenth longer.
	ResponseTimeout time.Duration
	// MaxRequest bounds a whole request, upgrades and event streams aside; zero
	// means 15 min.
	MaxRequest time.Duration
}

func (u Upstream) withDefaults() Upstream {
	if u.DialTimeout == 0 {
		u.DialTimeout = defaultDialTimeout
	}
	if u.ResponseTimeout == 0 {
		u.ResponseTimeout = defaultResponseTimeout
	}
	if u.MaxRequest == 0 {
		u.MaxRequest = defaultMaxRequest
	}
	return u
}

// given reports whether u says where a shop is.
func (u Upstream) given() bool { return u.URL != nil || u.Handler != nil }

func (u Upstream) validate() error {
	switch {
	case u.DialTimeout < 0, u.ResponseTimeout < 0, u.MaxRequest < 0:
		return fmt.Errorf("proxy: upstream: a timeout is negative; leave it out for the default")
	case u.Handler != nil && u.URL != nil:
		return fmt.Errorf("proxy: upstream: both a URL and a Handler given; the shop is in one place: leave one out")
	case u.Handler != nil:
		return nil
	case u.URL == nil:
		return fmt.Errorf("proxy: upstream: no URL given; set the shop's address, as http://127.0.0.1:9000, or its Handler")
	case u.URL.Scheme != "http" && u.URL.Scheme != "https", u.URL.Host == "", u.URL.Opaque != "":
		return fmt.Errorf("proxy: upstream: %q is not an address; write it as http://127.0.0.1:9000", u.URL.Redacted())
	case u.URL.Path != "" && u.URL.Path != "/", u.URL.RawQuery != "", u.URL.Fragment != "", u.URL.User != nil:
		return fmt.Errorf("proxy: upstream: %q holds more than scheme and host; the gate never changes a path, so leave the rest out", u.URL.Redacted())
	}
	return nil
}

// keepAlive finds out within about a minute and a half that the other end of a
// silent connection is gone: a tunnel whose client vanished without a word would
// be held for ever.
func keepAlive() net.KeepAliveConfig {
	return net.KeepAliveConfig{Enable: true, Idle: 30 * time.Second, Interval: 15 * time.Second, Count: 4}
}

// dialer makes connections to the shop.
func (u Upstream) dialer(log *slog.Logger) func(context.Context, string, string) (net.Conn, error) {
	if u.Handler != nil {
		return newInProcess(u.Handler, log).DialContext
	}
	return (&net.Dialer{Timeout: u.DialTimeout, KeepAliveConfig: keepAlive()}).DialContext
}

// address is the scheme and the host of requests to the shop.
func (u Upstream) address() (scheme, host string) {
	if u.Handler != nil {
		return "http", inMemory{}.String() // nobody looks it up
	}
	return u.URL.Scheme, u.URL.Host
}

// newTransport returns the connections to the shop. No proxy of the
// environment is used: where the gate dials is decided by its configuration
// alone. HTTP/1.1 only, so that the target goes out as it came in.
func newTransport(u Upstream, dial func(context.Context, string, string) (net.Conn, error)) *http.Transport {
	return &http.Transport{
		DialContext:           dial,
		TLSHandshakeTimeout:   u.DialTimeout,
		TLSNextProto:          map[string]func(string, *tls.Conn) http.RoundTripper{},
		ResponseHeaderTimeout: u.ResponseTimeout,
		ExpectContinueTimeout: expectContinueTimeout,
		MaxIdleConns:          idleConns,
		MaxIdleConnsPerHost:   idleConns,
		IdleConnTimeout:       idleConnTimeout,
		// The body, its length and its ETag are the shop's: nothing is unpacked.
		DisableCompression: true,
	}
}

// buffers hands out the buffers that bodies are copied through.
type buffers struct{ pool sync.Pool }

func newBuffers() *buffers {
	return &buffers{pool: sync.Pool{New: func() any { return new([copyBuffer]byte) }}}
}

// Get implements httputil.BufferPool.
func (b *buffers) Get() []byte { return b.pool.Get().(*[copyBuffer]byte)[:] }

// Put implements httputil.BufferPool.
func (b *buffers) Put(p []byte) {
	if len(p) == copyBuffer {
		b.pool.Put((*[copyBuffer]byte)(p))
	}
}
