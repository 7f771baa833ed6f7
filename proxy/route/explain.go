package route

import (
	"net/http"
	"net/netip"
)

// Explained is how one reading of a target falls under the rules.
type Explained struct {
	// Path is the reading.
	Path string `json:"path"`
	// Reserved: it lies under the reserved prefix.
	Reserved bool `json:"reserved,omitempty"`
	// Room is the room that protects it, Rule the rule by which; empty when none
	// does.
	Room string `json:"room,omitempty"`
	Rule string `json:"rule,omitempty"`
	// Exempt is the rule of that room that exempts it; empty when none does.
	Exempt string `json:"exempt,omitempty"`
}

// Explain tells for each reading of a target that Parse took what Match finds for
// it. The client is the one that Match is asked with.
func (t *Table) Explain(r *http.Request, target Target, client netip.Addr) []Explained {
	q := newQuery(r, target, client)
	list := make([]Explained, 0, len(target.Readings))
	for _, reading := range target.Readings {
		list = append(list, t.explainReading(&q, reading))
	}
	return list
}

func (t *Table) explainReading(q *query, reading string) Explained {
	out := Explained{Path: reading}
	if under(reading, t.prefix) {
		out.Reserved = true
		return out
	}
	e := t.lookup(q, reading, q.override)
	if e == nil {
		return out
	}
	room := &t.rooms[e.room]
	out.Room, out.Rule = room.name, e.name
	for _, rule := range room.exempt {
		if q.exempts(rule, reading) {
			out.Exempt = rule.name
			break
		}
	}
	return out
}

// OpenByDefault lists what DefaultExempt opens in a room: of the paths that it
// names those that the room protects, in the order of their names.
func (t *Table) OpenByDefault(room string) []string {
	var open []string
	for _, path := range []string{"/.well-known/", "/favicon.ico", "/robots.txt", "/sitemap.xml"} {
		for i := range t.protect {
			if e := &t.protect[i]; t.rooms[e.room].name == room && e.path.matches(path) {
				open = append(open, path)
				break
			}
		}
	}
	return open
}

// UnknownHost reports whether rules name hosts, but none of them this one.
func (t *Table) UnknownHost(host string) bool { return len(t.hosts) > 0 && !t.hosts[host] }

// OverridesMethod reports whether a header of r asks the shop to see another
// method than that of the request; rules of all methods apply then.
func OverridesMethod(r *http.Request) bool { return overridesMethod(r.Header) }
