package route

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// Kind is what the table says of a request.
type Kind int

const (
	// Refused is the zero Kind: the readings lie in different rooms, or there are
	// none. Answer 400 and forward nothing.
	Refused Kind = iota
	// Reserved: the gate's own path. It never reaches the shop; an empty
	// Verdict.Endpoint is 404.
	Reserved
	// Open: no room protects it.
	Open
	// Exempt: a room protects it and lets this request through.
	Exempt
	// Protected: only with a pass of Verdict.Room.
	Protected
)

// String returns the kind in lower case, for logs.
func (k Kind) String() string {
	names := [...]string{"refused", "reserved", "open", "exempt", "protected"}
	if k < 0 || int(k) >= len(names) {
		return "unknown"
	}
	return names[k]
}

// Verdict is the answer of [Table.Match].
type Verdict struct {
	Kind Kind
	// Room is the name of the room that protects the request, empty for Open,
	// Reserved and Refused.
	Room string
	// Rule names the rule that decided, such as rooms[0].protect[1].paths[0] or
	// rooms[0].exempt[0]; empty when none did.
	Rule string
	// Reading is the reading of the target that decided.
	Reading string
	// Reason is one or two words from a fixed list, fit for a metric label.
	Reason string
	// Consumes is set for a Protected request that a consume rule of the room
	// matches in any reading: in doubt it is an order.
	Consumes bool
	// Endpoint is what follows the reserved prefix and its slash. It is empty
	// unless the target is spelled exactly so and has no other reading: an odd
	// spelling of the gate's own path is neither served nor forwarded.
	Endpoint string
}

// The values of Verdict.Reason.
const (
	ReasonReserved    = "reserved"     // under the reserved prefix
	ReasonNoRoom      = "no-room"      // no protect rule matches
	ReasonRule        = "rule"         // a protect rule matches
	ReasonUnknownHost = "unknown-host" // a protect rule of another host matches, and no rule names the host asked for
	ReasonExempt      = "exempt"       // an exempt rule matches each reading
	ReasonPreflight   = "preflight"    // a true CORS preflight
	ReasonTwoRooms    = "two-rooms"    // the readings lie in different rooms
	ReasonNoTarget    = "no-target"    // the target did not come from Parse
)

// Match decides about a request whose target Parse took. The client is the
// address found by the clientip package; the zero Addr is in no CIDR.
//
// Rules for a host match that host only, and a host with rules of its own falls
// back to those without hosts. A request without a host, or with one that no
// rule names, is first tried against the rules without hosts; when none protects
// it, the rules of every host count. Otherwise a made-up Host header would be a
// way around the line before a shop that does not look at it. A host that shares
// the gate and must stay open is named in an exempt rule.
func (t *Table) Match(r *http.Request, target Target, client netip.Addr) Verdict {
	if len(target.Readings) == 0 {
		return Verdict{Kind: Refused, Reason: ReasonNoTarget}
	}
	for _, reading := range target.Readings {
		if under(reading, t.prefix) {
			return t.reservedVerdict(target, reading)
		}
	}
	q := newQuery(r, target, client)
	found, reading, oneRoom := t.find(&q, target)
	switch {
	case !oneRoom:
		return Verdict{Kind: Refused, Reading: reading, Reason: ReasonTwoRooms}
	case found == nil:
		return Verdict{Kind: Open, Reading: target.Readings[0], Reason: ReasonNoRoom}
	}
	room := &t.rooms[found.room]
	v := Verdict{Kind: Protected, Room: room.name, Rule: found.name, Reading: reading, Reason: ReasonRule}
	if found.host != "" && found.host != target.Host {
		v.Reason = ReasonUnknownHost
	}
	if rule := room.exempts(&q, target); rule != nil {
		v.Kind, v.Rule, v.Reason = Exempt, rule.name, ReasonExempt
	} else if q.preflight {
		v.Kind, v.Reason = Exempt, ReasonPreflight
	}
	v.Consumes = v.Kind == Protected && t.consumes(room, &q, target)
	return v
}

func (t *Table) reservedVerdict(target Target, reading string) Verdict {
	v := Verdict{Kind: Reserved, Reading: reading, Reason: ReasonReserved}
	if len(target.Readings) == 1 && t.under != "" {
		if rest, ok := strings.CutPrefix(reading, t.under); ok {
			v.Endpoint = rest
		}
	}
	return v
}

// find returns the most specific protect entry over all readings, and false when
// the readings' own entries belong to different rooms. With a method override
// header each path is read twice, with and without it.
func (t *Table) find(q *query, target Target) (best *entry, reading string, oneRoom bool) {
	for _, p := range target.Readings {
		found := [2]*entry{t.lookup(q, p, false)}
		if q.override {
			found[1] = t.lookup(q, p, true)
		}
		for _, e := range found {
			switch {
			case e == nil:
			case best == nil:
				best, reading = e, p
			case e.room != best.room:
				return nil, p, false
			case moreSpecific(e, best) < 0:
				best, reading = e, p
			}
		}
	}
	return best, reading, true
}

// lookup returns the entry that protects one reading. With anyMethod the method
// does not matter.
func (t *Table) lookup(q *query, reading string, anyMethod bool) *entry {
	matches := func(e *entry) bool {
		return (anyMethod || q.protects(e.rule)) && e.path.matches(reading)
	}
	for i := range t.protect {
		if e := &t.protect[i]; (e.host == "" || e.host == q.host) && matches(e) {
			return e
		}
	}
	if t.hosts[q.host] {
		return nil
	}
	for i := range t.protect {
		if e := &t.protect[i]; e.host != "" && matches(e) {
			return e
		}
	}
	return nil
}

// exempts returns the rule that exempts the first reading if every reading is
// exempt by one of the room's rules.
func (room *compiledRoom) exempts(q *query, target Target) *compiledRule {
	var first *compiledRule
	for _, reading := range target.Readings {
		i := slices.IndexFunc(room.exempt, func(r *compiledRule) bool { return q.exempts(r, reading) })
		if i < 0 {
			return nil
		}
		if first == nil {
			first = room.exempt[i]
		}
	}
	return first
}

// consumes reports whether one of the room's consume rules matches. They are read
// as protect rules are: whatever the shop could take for an order is one, by any
// reading, whatever the method is said to be, and under a host nobody knows.
func (t *Table) consumes(room *compiledRoom, q *query, target Target) bool {
	return slices.ContainsFunc(room.consume, func(rule *compiledRule) bool {
		if !q.override && !q.protects(rule) {
			return false
		}
		if len(rule.hosts) > 0 && t.hosts[q.host] && !slices.Contains(rule.hosts, q.host) {
			return false
		}
		return slices.ContainsFunc(target.Readings, func(reading string) bool {
			return slices.ContainsFunc(rule.paths, func(p pattern) bool { return p.matches(reading) })
		})
	})
}

// query is what rules look at besides the path.
type query struct {
	method    string
	override  bool // a header asks the shop to see another method
	preflight bool
	host      string
	client    netip.Addr
}

func newQuery(r *http.Request, target Target, client netip.Addr) query {
	q := query{method: r.Method, override: overridesMethod(r.Header), host: target.Host, client: client.WithZone("").Unmap()}
	if q.method == "" {
		q.method = http.MethodGet // as net/http reads it
	}
	q.preflight = q.method == http.MethodOptions && !q.override &&
		r.Header.Get("Origin") != "" && r.Header.Get("Access-Control-Request-Method") != "" &&
		r.ContentLength == 0 && len(r.TransferEncoding) == 0 && r.Header.Get("Upgrade") == ""
	return q
}

// overridesMethod looks for the three known headers in any spelling: many
// servers read X_HTTP_Method_Override as the same header.
func overridesMethod(h http.Header) bool {
	for name := range h {
		switch len(name) {
		case len("X-Http-Method"), len("X-Method-Override"), len("X-Http-Method-Override"):
			if isOverride(name) {
				return true
			}
		}
	}
	return false
}

func isOverride(name string) bool {
	if name[0] != 'X' && name[0] != 'x' {
		return false
	}
	name = strings.ReplaceAll(name, "_", "-")
	return strings.EqualFold(name, "X-Http-Method") ||
		strings.EqualFold(name, "X-Method-Override") ||
		strings.EqualFold(name, "X-Http-Method-Override")
}

// protects reports whether a protect rule's methods hold for the method as sent,
// in any letter case.
func (q *query) protects(rule *compiledRule) bool {
	if len(rule.methods) == 0 {
		return true
	}
	for _, m := range rule.methods {
		if strings.EqualFold(m, q.method) || m == http.MethodGet && strings.EqualFold(q.method, http.MethodHead) {
			return true
		}
	}
	return false
}

// exempts reports whether an exempt rule holds for one reading: in doubt it does
// not.
func (q *query) exempts(rule *compiledRule, reading string) bool {
	if len(rule.methods) > 0 {
		named := slices.Contains(rule.methods, q.method) ||
			q.method == http.MethodHead && slices.Contains(rule.methods, http.MethodGet)
		if q.override || !named {
			return false
		}
	}
	if len(rule.hosts) > 0 && !slices.Contains(rule.hosts, q.host) {
		return false
	}
	if len(rule.cidrs) > 0 && !slices.ContainsFunc(rule.cidrs, func(p netip.Prefix) bool { return p.Contains(q.client) }) {
		return false
	}
	return len(rule.paths) == 0 || slices.ContainsFunc(rule.paths, func(p pattern) bool { return p.matches(reading) })
}

// under reports whether the reading lies at or below the folded segments.
func under(reading string, prefix []string) bool {
	p := pattern{segs: prefix}
	return p.matches(reading)
}
