package stream

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// tick is how often every stream is looked at; who is poked is looked at at once.
	tick = 500 * time.Millisecond
	// life is how long a stream lasts, give or take a fifth: streams move on to
	// gates that were added, and what nobody reads any more comes to an end.
	life = 20 * time.Minute
	// perKey bounds the streams of one visitor; a newer one takes the place of the
	// oldest, which is mostly a tab that was closed.
	perKey = 8
	// crew is how many streams one goroutine looks at while the crowd is told.
	crew = 256
	// hurry is how soon after another look everybody is looked at again when there is
	// something to tell all of them.
	hurry = 100 * time.Millisecond
	// returnWithin is the time over which those come back whose stream the gate has
	// ended.
	returnWithin = 10 * time.Second
)

var (
	// ErrFull is returned by Hub.Open when there are as many streams as may be.
	ErrFull = errors.New("stream: as many streams are open as may be")
	// ErrOver is returned by Hub.Open after Close.
	ErrOver = errors.New("stream: no more streams are opened")
)

// Follower says what there is to tell one visitor. The hub calls Next of one
// follower never twice at once.
type Follower interface {
	// Next appends what is to be told now to dst, often nothing. hinted is set
	// when the visitor's stay is said to have taken a turn.
	Next(now time.Time, hinted bool, dst []Message) []Message
	// Heard says that the client has answered a ping. It must not take long.
	Heard()
	// Goodbye is told when the gate ends the stream of somebody who goes on
	// waiting and is to come back after a while.
	Goodbye(after time.Duration) Message
}

// Quota bounds the streams of several hubs together.
type Quota struct {
	most int64
	open atomic.Int64
}

// NewQuota returns a quota of so many streams.
func NewQuota(most int) *Quota { return &Quota{most: int64(most)} }

// Open is how many streams are open.
func (q *Quota) Open() int { return int(q.open.Load()) }

func (q *Quota) take() bool {
	if q.open.Add(1) <= q.most {
		return true
	}
	q.open.Add(-1)
	return false
}

// Hub has the streams of one room. It is safe for use by any number of goroutines.
// Its own goroutine runs while there are streams.
type Hub struct {
	quota *Quota
	hints func(ctx context.Context, tell func(keys []string)) error

	mu      sync.Mutex
	keyed   map[string][]*Stream // oldest first
	fresh   []*Stream            // not yet with the loop
	poked   []*Stream
	running bool
	over    bool
	all     bool // everybody is to be looked at soon
	wake    chan struct{}
	idle    chan struct{} // closed when the loop has ended
}

// NewHub returns a hub without streams. hints, which may be nil, is run while there
// are some, and tells the keys of those that should be looked at at once; none when all
// should.
func NewHub(quota *Quota, hints func(ctx context.Context, tell func(keys []string)) error) *Hub {
	return &Hub{quota: quota, hints: hints, keyed: map[string][]*Stream{}, wake: make(chan struct{}, 1)}
}

// Open makes room for a stream under a key, the visitor. Start or Drop must follow.
func (h *Hub) Open(key string, f Follower) (*Stream, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.over {
		return nil, ErrOver
	}
	if !h.quota.take() {
		return nil, ErrFull
	}
	s := &Stream{hub: h, key: key, follower: f, until: time.Now().Add(life - life/5 + rand.N(2*life/5))}
	if others := h.keyed[key]; len(others) >= perKey {
		others[0].leave.Store(true)
		h.poke(others[0])
	}
	h.keyed[key] = append(h.keyed[key], s)
	return s, nil
}

// Count is how many streams are open.
func (h *Hub) Count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := 0
	for _, streams := range h.keyed {
		n += len(streams)
	}
	return n
}

// poke has a stream looked at at once. The caller holds mu.
func (h *Hub) poke(s *Stream) {
	if !s.poked {
		s.poked = true
		h.poked = append(h.poked, s)
	}
	h.ring()
}

func (h *Hub) ring() {
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

// hint notes whose stay has taken a turn.
func (h *Hub) hint(keys []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(keys) == 0 {
		h.all = true
		h.ring()
		return
	}
	for _, key := range keys {
		for _, s := range h.keyed[key] {
			s.hinted.Store(true)
			h.poke(s)
		}
	}
}

// Has reports whether a key has streams.
func (h *Hub) Has(key string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.keyed[key]) > 0
}

// Tell calls f with each follower of a key and has their streams looked at at once.
func (h *Hub) Tell(key string, f func(Follower)) {
	h.mu.Lock()
	some := slices.Clone(h.keyed[key])
	h.mu.Unlock()
	for _, s := range some {
		f(s.follower)
		s.Poke()
	}
}

// start hands a stream to the loop.
func (h *Hub) start(s *Stream) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.fresh = append(h.fresh, s)
	if h.running {
		return
	}
	h.running, h.idle = true, make(chan struct{})
	go h.run(h.idle)
}

// forget takes a stream out of the books, once.
func (h *Hub) forget(s *Stream) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if s.forgotten {
		return
	}
	s.forgotten = true
	h.quota.open.Add(-1)
	rest := slices.DeleteFunc(h.keyed[s.key], func(o *Stream) bool { return o == s })
	if len(rest) == 0 {
		delete(h.keyed, s.key)
		return
	}
	h.keyed[s.key] = rest
}

// Close ends all streams with a word to come back elsewhere, and opens no more. It
// returns when everybody was told.
func (h *Hub) Close() {
	h.mu.Lock()
	h.over = true
	idle := h.idle
	h.mu.Unlock()
	if idle == nil {
		return
	}
	h.ring()
	<-idle
}

// run looks at the streams until there are none.
func (h *Hub) run(idle chan struct{}) {
	defer close(idle)
	ctx, cancel := context.WithCancel(context.Background())
	var hinting sync.WaitGroup
	defer hinting.Wait()
	defer cancel()
	if h.hints != nil {
		hinting.Go(func() { _ = h.hints(ctx, h.hint) })
	}
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	var (
		all  []*Stream
		last time.Time // when everybody was looked at
	)
	for {
		everybody := false
		select {
		case <-ticker.C:
			everybody, last = true, time.Now()
			ticker.Reset(tick)
		case <-h.wake:
		}
		h.mu.Lock()
		all = append(all, h.fresh...)
		some, over := h.poked, h.over
		if h.all && !everybody {
			ticker.Reset(max(1, hurry-time.Since(last)))
		}
		h.fresh, h.poked, h.all = nil, nil, false
		for _, s := range some {
			s.poked = false
		}
		h.mu.Unlock()
		if everybody || over {
			some = all
		}
		h.tell(some, over)
		all = slices.DeleteFunc(all, func(s *Stream) bool { return s.gone.Load() })
		if h.ends(len(all)) {
			return
		}
	}
}

// ends reports whether the loop has nothing left to do.
func (h *Hub) ends(n int) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if n > 0 || len(h.fresh) > 0 {
		return false
	}
	h.running, h.poked = false, nil
	return true
}

// tell looks at some streams, all hands together when they are many.
func (h *Hub) tell(some []*Stream, over bool) {
	now := time.Now()
	look := func(part []*Stream) {
		var with hand
		for _, s := range part {
			s.look(now, over, &with)
		}
	}
	hands := min(runtime.GOMAXPROCS(0), len(some)/crew)
	if hands < 2 {
		look(some)
		return
	}
	var (
		next atomic.Int64
		busy sync.WaitGroup
	)
	for range hands {
		busy.Go(func() {
			for {
				from := int(next.Add(crew)) - crew
				if from >= len(some) {
					return
				}
				look(some[from:min(from+crew, len(some))])
			}
		})
	}
	busy.Wait()
}
