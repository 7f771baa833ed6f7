package main

import (
	"errors"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
	"time"
)

// newBare is httputil.ReverseProxy and nothing else, tuned as the gate's is: as many
// idle connections as there can be requests, buffers that are used again, nothing
// unpacked, the same headers set.
func newBare(args []string) (http.Handler, error) {
	if len(args) != 1 {
		return nil, errors.New("bare: which shop?")
	}
	shop, err := url.Parse(args[0])
	if err != nil {
		return nil, err
	}
	const idle = 512
	return &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(shop)
			r.Out.Host = r.In.Host
			r.SetXForwarded()
		},
		Transport: &http.Transport{
			DialContext:         (&net.Dialer{Timeout: time.Second}).DialContext,
			MaxIdleConns:        idle,
			MaxIdleConnsPerHost: idle,
			IdleConnTimeout:     time.Minute,
			DisableCompression:  true,
		},
		BufferPool: newBuffers(),
	}, nil
}

// buffers are what bodies are copied through.
type buffers struct{ pool sync.Pool }

const bufferSize = 32 << 10

func newBuffers() *buffers {
	return &buffers{sync.Pool{New: func() any { return new([bufferSize]byte) }}}
}

func (b *buffers) Get() []byte { return b.pool.Get().(*[bufferSize]byte)[:] }

func (b *buffers) Put(p []byte) { b.pool.Put((*[bufferSize]byte)(p)) }
