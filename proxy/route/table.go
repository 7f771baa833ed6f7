package route

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// ErrInvalid is what every error of [NewTable] wraps. The joined messages name
// the place in the rooms' list and the remedy.
var ErrInvalid = errors.New("route: invalid table")

// Rule says which requests a room protects or exempts. What is left empty does
// not restrict; all that is given must hold.
type Rule struct {
	// Paths are decoded and plain: /orders, /주문, /orders/*/status. Each covers
	// itself and everything below; "*" stands for one segment.
	Paths []string
	// Methods in upper case. GET includes HEAD. A protect rule matches them in any
	// case, and matches whatever the method when the request carries a method
	// override header; an exempt rule matches them exactly, and never then.
	// Frameworks that take the method from a form field are not seen: protect
	// their routes without methods.
	Methods []string
	// Hosts are exact names or addresses without port.
	Hosts []string
	// CIDRs the client's address must be in. Only exempt rules may have them.
	CIDRs []netip.Prefix
	// CaseSensitive makes /Order another path than /order. It is safe only before
	// a shop that does the same.
	CaseSensitive bool
}

// Room is what the table needs to know of a room.
type Room struct {
	Name    string
	Protect []Rule
	Exempt  []Rule
	// Consume are the protected requests that may use a pass up; see
	// Verdict.Consumes.
	Consume []Rule
	// DefaultExempt lets GET and HEAD of /robots.txt, /favicon.ico, /sitemap.xml
	// and everything below /.well-known/ through. ACME and the other users of
	// .well-known that matter to a shop's outside only read.
	DefaultExempt bool
}

// Table is the compiled form of all rooms. It never changes and is safe for
// concurrent use.
type Table struct {
	prefix []string // folded segments of the reserved prefix
	under  string   // the reserved prefix as spelled, with a trailing slash
	// protect holds one entry for each path and host of each protect rule, the most
	// specific first: the first that matches is the one that counts.
	protect []entry
	rooms   []compiledRoom
	hosts   map[string]bool // every host a rule names
}

type entry struct {
	room   int
	name   string // rooms[0].protect[1].paths[0]
	host   string // "" is every host
	path   pattern
	rule   *compiledRule
	source string // the path as configured, for messages
}

type compiledRoom struct {
	name    string
	exempt  []*compiledRule
	consume []*compiledRule
}

type compiledRule struct {
	name    string // rooms[0].exempt[1]
	paths   []pattern
	methods []string
	hosts   []string
	cidrs   []netip.Prefix
}

// NewTable compiles rooms and the reserved prefix (such as /_queue). The order of
// the rooms does not matter for what matches: a rule with a host goes before one
// without, then the path with more segments, then the one with fewer "*". Two
// rooms that protect the same thing are an error, as is every rule that could
// never match; all errors are joined.
func NewTable(prefix string, rooms []Room) (*Table, error) {
	t := &Table{hosts: map[string]bool{}}
	c := compiler{table: t}
	c.reserved(prefix)
	names := map[string]int{}
	for i, room := range rooms {
		place := fmt.Sprintf("rooms[%d]", i)
		if room.Name == "" {
			c.fail(place+".name", "is empty")
		} else if j, taken := names[room.Name]; taken {
			c.fail(place+".name", fmt.Sprintf("%q is already the name of rooms[%d]", room.Name, j))
		}
		names[room.Name] = i
		c.room(i, place, room)
	}
	slices.SortStableFunc(t.protect, func(a, b entry) int {
		return cmp.Or(moreSpecific(&a, &b), strings.Compare(t.rooms[a.room].name, t.rooms[b.room].name))
	})
	c.overlaps()
	if len(c.errs) > 0 {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, errors.Join(c.errs...))
	}
	return t, nil
}

// moreSpecific orders a before b (negative) when a is to win over b.
func moreSpecific(a, b *entry) int {
	switch {
	case a.host != "" && b.host == "":
		return -1
	case a.host == "" && b.host != "":
		return 1
	}
	return cmp.Or(
		cmp.Compare(len(b.path.segs), len(a.path.segs)),
		cmp.Compare(a.path.stars(), b.path.stars()),
	)
}

// compiler gathers the errors of all rules, so that the operator sees all at once.
type compiler struct {
	table *Table
	errs  []error
}

func (c *compiler) fail(place, problem string) {
	c.errs = append(c.errs, fmt.Errorf("%s: %s", place, problem))
}

func (c *compiler) reserved(prefix string) {
	p, err := compilePath(prefix, false)
	switch {
	case err != nil:
		c.fail("prefix", err.Error())
	case len(p.segs) == 0:
		c.fail("prefix", "is the whole site; give the gate a path of its own such as /_queue")
	case p.stars() > 0:
		c.fail("prefix", `must not hold "*"`)
	default:
		c.table.prefix = p.segs
		c.table.under = strings.TrimSuffix(prefix, "/") + "/"
	}
}

func (c *compiler) room(index int, place string, room Room) {
	compiled := compiledRoom{name: room.Name}
	if len(room.Protect) == 0 {
		c.fail(place+".protect", "is empty: the room would never be used")
	}
	for i, r := range room.Protect {
		at := fmt.Sprintf("%s.protect[%d]", place, i)
		rule := c.rule(at, r)
		if len(r.Paths) == 0 {
			c.fail(at+".paths", `is empty; write "/" to protect the whole host`)
		}
		if len(r.CIDRs) > 0 {
			c.fail(at+".cidrs", "has no place in a protect rule; exempt the addresses that need not wait")
		}
		hosts := rule.hosts
		if len(hosts) == 0 {
			hosts = []string{""}
		}
		for j, p := range rule.paths {
			for _, h := range hosts {
				c.table.protect = append(c.table.protect, entry{
					room: index, name: fmt.Sprintf("%s.paths[%d]", at, j), host: h, path: p, rule: rule, source: r.Paths[j],
				})
			}
		}
	}
	for i, r := range room.Exempt {
		at := fmt.Sprintf("%s.exempt[%d]", place, i)
		if len(r.Paths)+len(r.Methods)+len(r.Hosts)+len(r.CIDRs) == 0 {
			c.fail(at, "is empty and would exempt everything; name paths, methods, hosts or cidrs")
		}
		compiled.exempt = append(compiled.exempt, c.rule(at, r))
	}
	for i, r := range room.Consume {
		at := fmt.Sprintf("%s.consume[%d]", place, i)
		if len(r.Paths) == 0 {
			c.fail(at+".paths", "is empty; name the paths of the orders")
		}
		if len(r.CIDRs) > 0 {
			c.fail(at+".cidrs", "has no place in a consume rule: an order is one from anywhere")
		}
		compiled.consume = append(compiled.consume, c.rule(at, r))
	}
	c.unreachable(place, room)
	if room.DefaultExempt {
		compiled.exempt = append(compiled.exempt, defaultExempt(place+".default_exempt"))
	}
	c.table.rooms = append(c.table.rooms, compiled)
}

func defaultExempt(name string) *compiledRule {
	return &compiledRule{
		name:    name,
		methods: []string{"GET"},
		paths: []pattern{
			{segs: []string{"robots.txt"}, exact: true, exactCase: true},
			{segs: []string{"favicon.ico"}, exact: true, exactCase: true},
			{segs: []string{"sitemap.xml"}, exact: true, exactCase: true},
			{segs: []string{".well-known"}, exactCase: true},
		},
	}
}

func (c *compiler) rule(place string, r Rule) *compiledRule {
	out := &compiledRule{name: place}
	for i, p := range r.Paths {
		at := fmt.Sprintf("%s.paths[%d]", place, i)
		pat, err := compilePath(p, r.CaseSensitive)
		if err != nil {
			c.fail(at, err.Error())
		} else if len(c.table.prefix) > 0 && pat.below(c.table.prefix) {
			c.fail(at, fmt.Sprintf("%q lies under the reserved prefix; choose another prefix", p))
		}
		out.paths = append(out.paths, pat)
	}
	for i, m := range r.Methods {
		if m == "" || strings.Trim(m, "ABCDEFGHIJKLMNOPQRSTUVWXYZ-_") != "" {
			c.fail(fmt.Sprintf("%s.methods[%d]", place, i), fmt.Sprintf("%q is not a method in upper case such as POST", m))
		}
		out.methods = append(out.methods, m)
	}
	for i, h := range r.Hosts {
		host, ok := normalHost(h)
		if !ok || host == "" {
			c.fail(fmt.Sprintf("%s.hosts[%d]", place, i), fmt.Sprintf("%q is not a host; write exact names such as shop.example", h))
			continue
		}
		out.hosts = append(out.hosts, host)
		c.table.hosts[host] = true
	}
	for i, p := range r.CIDRs {
		if !p.IsValid() {
			c.fail(fmt.Sprintf("%s.cidrs[%d]", place, i), "is not a valid prefix such as 10.0.0.0/8")
			continue
		}
		if p.Addr().Is4In6() && p.Bits() >= 96 {
			p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
		}
		out.cidrs = append(out.cidrs, p.Masked())
	}
	return out
}

// unreachable finds exempt and consume paths outside everything the room
// protects: they do nothing, and whoever wrote them believes they do.
func (c *compiler) unreachable(place string, room Room) {
	var protected []pattern
	for _, r := range room.Protect {
		for _, p := range r.Paths {
			if pat, err := compilePath(p, r.CaseSensitive); err == nil {
				protected = append(protected, pat)
			}
		}
	}
	find := func(list string, rules []Rule) {
		for i, r := range rules {
			for j, p := range r.Paths {
				pat, err := compilePath(p, r.CaseSensitive)
				if err != nil || slices.ContainsFunc(protected, pat.meets) {
					continue
				}
				c.fail(fmt.Sprintf("%s.%s[%d].paths[%d]", place, list, i, j), fmt.Sprintf("%q can never match: the room protects nothing there", p))
			}
		}
	}
	find("exempt", room.Exempt)
	find("consume", room.Consume)
}

// overlaps finds paths that two rooms protect for the same host and method.
func (c *compiler) overlaps() {
	list := c.table.protect
	for i := range list {
		for j := i + 1; j < len(list); j++ {
			a, b := &list[i], &list[j]
			if a.room == b.room || a.host != b.host || !a.path.same(b.path) || !shareMethod(a.rule.methods, b.rule.methods) {
				continue
			}
			c.fail(b.name, fmt.Sprintf("%q is already protected by %s of another room", b.source, a.name))
		}
	}
}

func shareMethod(a, b []string) bool {
	if len(a) == 0 || len(b) == 0 {
		return true
	}
	return slices.ContainsFunc(a, func(m string) bool { return slices.Contains(b, m) })
}
