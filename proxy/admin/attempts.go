package admin

import (
	"net/netip"
	"sync"
	"time"
)

const (
	// attemptsAtOnce is how many wrong tokens an address may show at once, and
	// attemptEvery how soon it may show one more.
	attemptsAtOnce = 10
	attemptEvery   = 6 * time.Second
	// attemptsKept bounds the addresses that are remembered.
	attemptsKept = 4096
)

// attempts counts the wrong tokens of each address; a /64 of IPv6 is one.
type attempts struct {
	now func() time.Time

	mu   sync.Mutex
	free map[netip.Prefix]time.Time // when all that were used have come back
}

func newAttempts(now func() time.Time) *attempts {
	return &attempts{now: now, free: map[netip.Prefix]time.Time{}}
}

func household(peer netip.Addr) netip.Prefix {
	bits := peer.BitLen()
	if peer.Is6() {
		bits = 64
	}
	p, _ := peer.Prefix(bits)
	return p
}

// wait is how long an address has to wait before it may show a token.
func (a *attempts) wait(peer netip.Addr) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	used := max(0, a.free[household(peer)].Sub(a.now()))
	return max(0, used-(attemptsAtOnce-1)*attemptEvery)
}

// count counts a wrong one. When too many addresses are remembered those whose
// attempts have all come back are forgotten, and if there are none all are: a crowd
// of addresses is not what this can stop.
func (a *attempts) count(peer netip.Addr) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.now()
	if len(a.free) >= attemptsKept {
		for address, at := range a.free {
			if !at.After(now) {
				delete(a.free, address)
			}
		}
		if len(a.free) >= attemptsKept {
			clear(a.free)
		}
	}
	at := a.free[household(peer)]
	if at.Before(now) {
		at = now
	}
	a.free[household(peer)] = at.Add(attemptEvery)
}
