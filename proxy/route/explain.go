package route

import (
	"fmt"
	"net/http"
	"net/netip"
	"strings"
)

// Explain tells in a few lines how the gate judges r: the readings of its
// target, the rule each falls under, and the verdict. The client is the address
// the request would come from; the zero Addr is one that no CIDR holds.
func (t *Table) Explain(r *http.Request, client netip.Addr) string {
	var b strings.Builder
	target, refusal := Parse(r)
	if refusal != nil {
		fmt.Fprintf(&b, "verdict: refused with %d: %s\n", refusal.Status, refusal.Reason)
		return b.String()
	}
	q := newQuery(r, target, client)
	host := target.Host
	if host == "" {
		host = "(none)"
	} else if !t.hosts[host] {
		host += " (named in no rule)"
	}
	fmt.Fprintf(&b, "method:  %s\nhost:    %s\n", q.method, host)
	if client.IsValid() {
		fmt.Fprintf(&b, "client:  %s\n", q.client)
	}
	if q.override {
		b.WriteString("note:    a method override header is present: protect rules of all methods apply\n")
	}
	b.WriteString("readings:\n")
	for _, reading := range target.Readings {
		fmt.Fprintf(&b, "  %q: %s\n", reading, t.explainReading(&q, reading))
	}
	v := t.Match(r, target, client)
	fmt.Fprintf(&b, "verdict: %s (%s)\n", v.Kind, v.Reason)
	if v.Room != "" {
		fmt.Fprintf(&b, "room:    %s\n", v.Room)
	}
	if v.Rule != "" {
		fmt.Fprintf(&b, "rule:    %s\n", v.Rule)
	}
	if v.Kind == Reserved && v.Endpoint == "" {
		b.WriteString("why:     an odd spelling of the gate's own path: 404\n")
	}
	return b.String()
}

func (t *Table) explainReading(q *query, reading string) string {
	if under(reading, t.prefix) {
		return "under the reserved prefix"
	}
	e := t.lookup(q, reading, q.override)
	if e == nil {
		return "no room"
	}
	room := &t.rooms[e.room]
	for _, rule := range room.exempt {
		if q.exempts(rule, reading) {
			return fmt.Sprintf("room %s by %s, exempt by %s", room.name, e.name, rule.name)
		}
	}
	return fmt.Sprintf("room %s by %s", room.name, e.name)
}
