package proxy

import "sync"

// inFlight counts the requests of one room that are at the shop. One pass never has
// more of them there than it leaves free, so whoever hoards with k passes is held to
// k/(k+1) of all and nobody else is shut out; alone, a visitor has half.
type inFlight struct {
	mu  sync.Mutex
	all int
	of  map[string]int // by admission
}

func newInFlight() *inFlight { return &inFlight{of: make(map[string]int)} }

// enter counts a request that goes to the shop by an admission, "" for none, where
// at most so many may be there; zero is no bound. Why it has to wait is told when
// there is no room for it.
func (f *inFlight) enter(admission string, most int) (why Reason, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	free := most - f.all
	switch {
	case most == 0:
	case free <= 0:
		return ReasonMaxInFlight, false
	case admission != "" && f.of[admission] >= free:
		return ReasonPassBusy, false
	}
	if admission != "" {
		f.of[admission]++
	}
	f.all++
	return "", true
}

// leave takes back one enter.
func (f *inFlight) leave(admission string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all--
	switch {
	case admission == "":
	case f.of[admission] == 1:
		delete(f.of, admission)
	default:
		f.of[admission]--
	}
}

// count is how many there are.
func (f *inFlight) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.all
}
