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
	// running counts them, and wasReplaced once more when the handler was replaced.
	running atomic.Int64
	over    chan struct{} // closed when it was replaced and has no request left
	told    sync.Once
}

const wasReplaced = 1 << 32

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
	before.count(wasReplaced)
	return before.over
}

// ServeHTTP implements http.Handler.
func (r *replaceable) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	h := r.now.Load()
	for h.count(1) > wasReplaced { // replaced since
		h.count(-1)
		h = r.now.Load()
	}
	defer h.count(-1)
	h.Handler.ServeHTTP(w, req)
}

// count counts what begins or ends, and tells how many there are.
func (h *inUse) count(d int64) int64 {
	n := h.running.Add(d)
	if n == wasReplaced {
		h.told.Do(func() { close(h.over) })
	}
	return n
}
