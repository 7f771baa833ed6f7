package proxy

import "time"

// shopKey is what shops are told apart by.
type shopKey struct {
	url               string
	dial, answer, all time.Duration
	inside            *shop // itself, when it has no address: two handlers cannot be compared
}

// shopOf returns the shop that u describes: one that this gate or the one before
// knows already, with its connections and whether it takes any, or a new one.
func (g *Gate) shopOf(u Upstream, before *Gate) *shop {
	if u.Handler != nil {
		s := newShop(u, g.log)
		g.shops[shopKey{inside: s}] = s
		return s
	}
	key := shopKey{url: u.URL.String(), dial: u.DialTimeout, answer: u.ResponseTimeout, all: u.MaxRequest}
	s := g.shops[key]
	if s == nil && before != nil {
		s = before.shops[key]
	}
	if s == nil {
		s = newShop(u, g.log)
	}
	g.shops[key] = s
	return s
}

// succeed takes over what bounds the whole gate from the one before, so that a
// reload forgives nothing and doubles nothing.
func (g *Gate) succeed(before *Gate) {
	if before == nil {
		return
	}
	g.streams, g.asks = before.streams, before.asks
	if g.joins != nil && before.joins != nil && g.joins.limit == before.joins.limit {
		g.joins = before.joins
	}
}

// hold counts the gate among those that use what gates of one process share.
func (g *Gate) hold() {
	for _, s := range g.shops {
		s.gates.Add(1)
	}
	for _, r := range g.rooms {
		if r.shadow != nil {
			r.shadow.gates.Add(1)
		}
	}
}

// Close lets go of what the gate holds once its last request is over and its streams
// are closed: connections to shops, and what plays people in rooms in shadow, that no
// gate of this process uses any more. It is called once.
func (g *Gate) Close() {
	for _, s := range g.shops {
		if s.gates.Add(-1) == 0 {
			s.close()
		}
	}
	for _, r := range g.rooms {
		if r.shadow != nil && r.shadow.gates.Add(-1) == 0 {
			r.shadow.close()
		}
	}
}
