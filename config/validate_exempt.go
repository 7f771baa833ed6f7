package config

import (
	"slices"
	"strings"
)

// exempt checks that an exempt rule can match and does not open the room.
func (k *checker) exempt(at string, rule Rule, room string, r Room) {
	for i, cidr := range rule.CIDRs {
		if isEverybody(cidr) && len(rule.Paths) == 0 {
			k.fail(index(at+".cidrs", i), "exempts everybody; to switch the room off write suspended: true%s", got(cidr))
		}
	}
	if !k.judge(room+".protect", at) || k.failed(room+".protect") {
		return
	}
	if len(rule.Paths) == 0 {
		k.exemptPath(at, "/", rule, r.Protect)
	}
	for i, path := range rule.Paths {
		if pathProblem(path) == "" {
			k.exemptPath(index(at+".paths", i), path, rule, r.Protect)
		}
	}
	if len(rule.CIDRs) == 0 && !k.failed(at) {
		k.exemptChanges(at, rule, r.Protect)
		k.exemptOrders(at, rule, r.Consume.Routes)
	}
}

// exemptPath checks one path of an exempt rule against what its room protects.
func (k *checker) exemptPath(key, path string, rule Rule, protect []Rule) {
	reached := false
	for _, p := range protect {
		if !meet(rule.Methods, p.Methods, strings.EqualFold) || !meet(rule.Hosts, p.Hosts, sameHost) {
			continue
		}
		for _, protected := range p.Paths {
			reached = reached || meets(path, protected)
			if under(protected, path) && covers(rule, p) {
				k.fail(key, "takes the protection off %s altogether; narrow the rule or write suspended: true", quote(protected))
				return
			}
		}
	}
	if !reached {
		k.fail(key, "can never match: the room protects nothing there for these methods and hosts; remove it or protect the path")
	}
}

// covers reports whether an exempt rule lets through every request the methods
// and hosts of a protect rule select.
func covers(exempt, protect Rule) bool {
	return len(exempt.CIDRs) == 0 && holds(exempt.Methods, protect.Methods, strings.EqualFold) &&
		holds(exempt.Hosts, protect.Hosts, sameHost)
}

// looks are the methods that change nothing at a shop. To let everybody look and
// keep the line for what follows is a usual wish.
var looks = []string{"GET", "HEAD", "OPTIONS"}

// exemptChanges refuses a rule that leaves all paths of its room open for a method
// that changes something: what reads as a hole for one machine is one for everybody,
// and nothing of the step that hurts is guarded any more.
func (k *checker) exemptChanges(at string, rule Rule, protect []Rule) {
	for i, method := range rule.Methods {
		if slices.Contains(looks, strings.ToUpper(method)) {
			continue
		}
		guarded, left := false, false
		for _, p := range protect {
			if !meet([]string{method}, p.Methods, strings.EqualFold) {
				continue
			}
			for _, path := range p.Paths {
				guarded = true
				left = left || !reaches(rule, path, p.Hosts)
			}
		}
		if guarded && !left {
			k.fail(index(at+".methods", i), "exempts every %s to what the room protects, orders included; name the paths that machines call, such as [/payment/callback], or their cidrs", method)
		}
	}
}

// exemptOrders refuses a rule that takes a whole consume route away: orders there
// would need no pass and use none up.
func (k *checker) exemptOrders(at string, rule Rule, routes []Rule) {
	for i, route := range routes {
		// A route without methods is one for orders by any method that changes something.
		shared := meet(rule.Methods, route.Methods, strings.EqualFold)
		if len(route.Methods) == 0 && len(rule.Methods) > 0 {
			shared = slices.ContainsFunc(rule.Methods, func(m string) bool { return !slices.Contains(looks, strings.ToUpper(m)) })
		}
		for _, path := range route.Paths {
			if shared && pathProblem(path) == "" && reaches(rule, path, route.Hosts) {
				k.fail(at, "takes the orders at %s away from consume.routes[%d]: they would need no pass and use none up; exempt a path below it, or cidrs", quote(path), i)
				return
			}
		}
	}
}

// reaches reports whether an exempt rule lets through, by path and host, all that
// a rule covers with this path and these hosts.
func reaches(exempt Rule, path string, hosts []string) bool {
	return holds(exempt.Hosts, hosts, sameHost) && (len(exempt.Paths) == 0 ||
		slices.ContainsFunc(exempt.Paths, func(p string) bool { return pathProblem(p) == "" && under(path, p) }))
}
