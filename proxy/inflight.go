package proxy

import "sync"

// inFlight counts the requests of one room that are at the shop. One pass never has
// more of them there than it leaves free, so whoever hoards with k passes is held to
// k/(k+1) of all and nobody else is shut out; alone, a visitor has half.
type inFlight struct {
	most int // zero: no bound
	mu   sync.Mutex
	all  int
	of   map[string]int // by admission
}

// enter counts a request that goes to the shop by an admission, "" for none. Why it
// has to wait is told when there is no room for it.
func (f *inFlight) enter(admission string) (why Reason, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	free := f.most - f.all
	switch {
	case f.most == 0:
	case free <= 0:
		return ReasonMaxInFlight, false
	case admission == "":
	case f.of[admission] >= free:
		return ReasonPassBusy, false
	default:
		if f.of == nil {
			f.of = make(map[string]int)
		}
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
	case admission == "" || f.most == 0:
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
