package proxy

import (
	"net/http"
	"sync"
	"sync/atomic"
)

// replaceable is a handler that can be replaced while requests run.
type replaceable struct{ now atomic.Pointer[inUse] }

// inUse is one handler and the requests that it has.
type inUse struct {
	http.Handler
	mu       sync.Mutex
	running  int
	replaced bool
	over     chan struct{} // closed when it was replaced and has no request left
}

func newReplaceable(h http.Handler) *replaceable {
	r := &replaceable{}
	r.replace(h)
	return r
}

// replace puts another handler in the place of the one there is, which gets no
// request any more. What it returns is closed when that one's last request is over.
func (r *replaceable) replace(h http.Handler) (over <-chan struct{}) {
	before := r.now.Swap(&inUse{Handler: h, over: make(chan struct{})})
	if before == nil {
		return nil
	}
	before.mu.Lock()
	defer before.mu.Unlock()
	before.replaced = true
	if before.running == 0 {
		close(before.over)
	}
	return before.over
}

// ServeHTTP implements http.Handler.
func (r *replaceable) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	h := r.now.Load()
	for !h.begin() { // replaced since
		h = r.now.Load()
	}
	defer h.end()
	h.Handler.ServeHTTP(w, req)
}

func (h *inUse) begin() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.replaced {
		return false
	}
	h.running++
	return true
}

func (h *inUse) end() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.running--
	if h.replaced && h.running == 0 {
		close(h.over)
	}
}
