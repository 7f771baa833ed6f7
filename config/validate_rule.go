package config

import (
	"net/netip"
	"regexp"
	"slices"
	"strings"
)

var (
	methodToken = regexp.MustCompile(`^[A-Z][A-Z0-9_-]*$`)
	hostName    = regexp.MustCompile(`^(?i)[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?)*\.?$`)
)

func (k *checker) rules(key string, r Room) {
	if len(r.Protect) == 0 {
		k.fail(key+".protect", "at least one path is required, such as {paths: [/checkout]}")
	}
	for i, rule := range r.Protect {
		at := index(key+".protect", i)
		if len(rule.Paths) == 0 {
			k.fail(at+".paths", "at least one path is required, such as [/checkout]")
		}
		k.rule(at, rule)
		if len(rule.CIDRs) > 0 {
			k.fail(at+".cidrs", "only exempt rules take cidrs; remove it")
		}
		for j, path := range rule.Paths {
			if path == "/" {
				k.warn(index(at+".paths", j), "protects the whole site; protecting only the purchase step, such as /checkout, keeps the shop open for looking around")
			}
		}
	}
	for i, rule := range r.Exempt {
		at := index(key+".exempt", i)
		k.rule(at, rule)
		k.exempt(at, rule, key, r)
	}
	for i, rule := range r.Consume.Routes {
		at := index(key+".consume.routes", i)
		if len(rule.Paths) == 0 {
			k.fail(at+".paths", "at least one path is required, such as [/orders]")
		}
		k.rule(at, rule)
		if len(rule.CIDRs) > 0 {
			k.fail(at+".cidrs", "only exempt rules take cidrs; remove it")
		}
		k.consume(at, rule, key, r)
	}
}

// consume checks that an order can be one: what is not protected needs no pass.
func (k *checker) consume(at string, rule Rule, room string, r Room) {
	if !k.judge(room+".protect", at) || k.failed(room+".protect") {
		return
	}
	for i, path := range rule.Paths {
		if pathProblem(path) != "" {
			continue
		}
		reached := slices.ContainsFunc(r.Protect, func(p Rule) bool {
			return meet(rule.Methods, p.Methods, strings.EqualFold) && meet(rule.Hosts, p.Hosts, sameHost) &&
				slices.ContainsFunc(p.Paths, func(protected string) bool { return meets(path, protected) })
		})
		if !reached {
			k.fail(index(at+".paths", i), "can never match: the room protects nothing there for these methods and hosts; protect the path as well%s", got(path))
		}
	}
}

// rule checks what all rules have in common.
func (k *checker) rule(key string, rule Rule) {
	for i, path := range rule.Paths {
		at := index(key+".paths", i)
		if wrong := pathProblem(path); wrong != "" {
			k.fail(at, "%s%s", wrong, got(path))
			continue
		}
		prefix := k.c.Prefix
		if path != "/" && k.judge("prefix") && !k.failed("prefix") && (under(path, prefix) || under(prefix, path)) {
			k.fail(at, "overlaps prefix %s, which the gate answers itself; change one of them%s", quote(prefix), got(path))
		}
	}
	for i, method := range rule.Methods {
		at := index(key+".methods", i)
		if upper := strings.ToUpper(method); upper != method && methodToken.MatchString(upper) {
			k.fail(at, "must be in capitals; write %s%s", upper, got(method))
		} else if !methodToken.MatchString(method) {
			k.fail(at, "must be a method such as POST%s", got(method))
		}
	}
	for i, host := range rule.Hosts {
		k.host(index(key+".hosts", i), host)
	}
	k.cidrs(key+".cidrs", rule.CIDRs)
}

// pathProblem says what is wrong with the path of a rule, or "". Requests are
// compared in their decoded, cleaned form, so a rule must stand in that form.
func pathProblem(path string) string {
	switch {
	case !strings.HasPrefix(path, "/"):
		return "must start with \"/\""
	case strings.ContainsAny(path, "?#"):
		return "must not have a query or fragment; only the path is compared"
	case strings.Contains(path, "%"):
		return "must be written decoded, without \"%\""
	case strings.ContainsAny(path, "\\;") || strings.ContainsFunc(path, isBlank):
		return "must not hold \"\\\", \";\", blanks or control characters"
	case strings.HasSuffix(path, "/*"):
		return "a path covers everything below it already; leave out the \"*\" at its end"
	}
	segments := segmentsOf(path)
	for i, segment := range segments {
		switch {
		case segment == "" && i < len(segments)-1:
			return "must be clean: no \"//\""
		case strings.HasPrefix(segment, ".") || strings.HasSuffix(segment, "."):
			return "must not have a segment that begins or ends with \".\""
		case segment != "*" && strings.Contains(segment, "*"):
			return "\"*\" stands for one whole segment only"
		}
	}
	return ""
}

// segmentsOf splits a path that begins with "/"; "/" has one empty segment.
func segmentsOf(path string) []string { return strings.Split(strings.TrimPrefix(path, "/"), "/") }

func isBlank(r rune) bool { return r <= ' ' || r == 0x7f }

func (k *checker) host(key, host string) {
	inner, bracketed := strings.CutPrefix(host, "[")
	inner, closed := strings.CutSuffix(inner, "]")
	ip, err := netip.ParseAddr(inner)
	switch {
	case err == nil && bracketed == closed && bracketed == ip.Is6() && ip.Zone() == "":
	case err == nil && ip.Is6():
		k.fail(key, "must be in brackets; write [%s]", ip.WithZone(""))
	case strings.Contains(host, "*"):
		k.fail(key, "wildcards are not supported; list each host%s", got(host))
	case strings.Contains(host, "://") || strings.ContainsAny(host, "/:@"):
		k.fail(key, "must be a host alone, without scheme, port and path%s", got(host))
	case strings.ContainsFunc(host, func(r rune) bool { return r > 0x7f }):
		k.fail(key, "must be written in ASCII, as xn--...%s", got(host))
	case !hostName.MatchString(host) || len(host) > 253:
		k.fail(key, "must be a host such as shop.example.com%s", got(host))
	}
}

// holds reports whether list a, where empty means all, has every item of b.
func holds(a, b []string, same func(x, y string) bool) bool {
	if len(a) == 0 {
		return true
	}
	return len(b) > 0 && !slices.ContainsFunc(b, func(y string) bool {
		return !slices.ContainsFunc(a, func(x string) bool { return same(x, y) })
	})
}

// meet reports whether lists a and b, where empty means all, share an item.
func meet(a, b []string, same func(x, y string) bool) bool {
	return len(a) == 0 || len(b) == 0 || slices.ContainsFunc(a, func(x string) bool {
		return slices.ContainsFunc(b, func(y string) bool { return same(x, y) })
	})
}

func sameHost(x, y string) bool {
	return strings.EqualFold(strings.TrimSuffix(x, "."), strings.TrimSuffix(y, "."))
}

// under reports whether everything path covers is covered by root too, by whole
// segments and without regard to case. A "*" in root stands for any segment.
func under(path, root string) bool {
	at, of := trimmed(path), trimmed(root)
	return len(at) >= len(of) && !slices.ContainsFunc(pairs(at, of), func(p [2]string) bool {
		return p[1] != "*" && !strings.EqualFold(p[0], p[1])
	})
}

// meets reports whether some path is covered by both a and b.
func meets(a, b string) bool {
	return !slices.ContainsFunc(pairs(trimmed(a), trimmed(b)), func(p [2]string) bool {
		return p[0] != "*" && p[1] != "*" && !strings.EqualFold(p[0], p[1])
	})
}

// trimmed are the segments of a path without the empty one at its end.
func trimmed(path string) []string {
	path = strings.Trim(path, "/")
	if path == "" {
		return nil
	}
	return strings.Split(path, "/")
}

// pairs puts the segments of a and b side by side, as far as both go.
func pairs(a, b []string) [][2]string {
	list := make([][2]string, min(len(a), len(b)))
	for i := range list {
		list[i] = [2]string{a[i], b[i]}
	}
	return list
}

// sharedPaths refuses a path that two rooms protect alike: nothing would say
// which of the two lines a visitor stands in.
func (k *checker) sharedPaths() {
	for i, later := range k.c.Rooms {
		for n, rule := range later.Protect {
			for m, path := range rule.Paths {
				if first := k.roomOf(i, rule, path); first >= 0 {
					key := index(index(index("rooms", i)+".protect", n)+".paths", m)
					k.fail(key, "is already protected by rooms[%d]; a path belongs to one room%s", first, got(path))
				}
			}
		}
	}
}

// roomOf finds a room before the given one that protects path for the same
// hosts and a shared method, or -1.
func (k *checker) roomOf(before int, rule Rule, path string) int {
	for i, room := range k.c.Rooms[:before] {
		for _, other := range room.Protect {
			if (len(rule.Hosts) == 0) != (len(other.Hosts) == 0) || !meet(rule.Hosts, other.Hosts, sameHost) ||
				!meet(rule.Methods, other.Methods, strings.EqualFold) {
				continue
			}
			if rule.CaseSensitive && other.CaseSensitive {
				if slices.Contains(other.Paths, path) {
					return i
				}
				continue
			}
			for _, taken := range other.Paths {
				if under(path, taken) && under(taken, path) {
					return i
				}
			}
		}
	}
	return -1
}
