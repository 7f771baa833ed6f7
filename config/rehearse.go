package config

import (
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// machines are words in paths that machines post to: who pays is told there, and a
// machine does not wait in line.
var machines = []string{"callback", "webhook", "ipn", "notify", "notification", "hook"}

// beyond is how many times over the slots a rate may fill them before it is told that
// the slots decide alone: most people leave long before their session ends.
const beyond = 100

// rehearse warns of what is valid and will hurt on the day.
func (k *checker) rehearse(key string, r Room) {
	for i, rule := range r.Protect {
		if len(rule.Methods) > 0 && !slices.Contains(rule.Methods, http.MethodPost) {
			continue
		}
		for j, path := range rule.Paths {
			at := index(index(key+".protect", i)+".paths", j)
			if pathProblem(path) == "" && forMachines(path) && k.judge(key+".exempt") && !postsExempt(r, path, rule) {
				k.warn(at, "looks like a path that machines post to, such as a payment service: they do not wait in line; leave it out of protect, or exempt {paths: [%s], methods: [POST]}", path)
			}
		}
	}
	minutes := r.SessionDuration.Minutes()
	if r.TotalActiveUsers > 0 && float64(r.NewUsersPerMinute)*minutes > beyond*float64(r.TotalActiveUsers) &&
		k.judge(key+".total_active_users", key+".new_users_per_minute", key+".session_duration") {
		k.warn(key+".new_users_per_minute", "is far above what the slots let in: %d of them held for %s each are one every %s when nobody leaves early; raise total_active_users or lower the rate%s",
			r.TotalActiveUsers, short(r.SessionDuration), short((r.SessionDuration / time.Duration(r.TotalActiveUsers)).Round(time.Millisecond)), got(strconv.Itoa(r.NewUsersPerMinute)))
	}
}

// forMachines reports whether a path has a word of machines, in any spelling:
// /payment/Callback, /pay_callback, /stripe-webhooks, /paymentCallback.
func forMachines(path string) bool {
	plain := strings.NewReplacer("-", "", "_", "", ".", "").Replace(strings.ToLower(path))
	for _, segment := range segmentsOf(plain) {
		for _, word := range machines {
			short := len(word) < 5 // would stand in other words by chance
			if segment == word || segment == word+"s" || !short && strings.Contains(segment, word) {
				return true
			}
		}
	}
	return false
}

// postsExempt reports whether some rule lets POSTs to a path through, of whomever.
func postsExempt(r Room, path string, protect Rule) bool {
	return slices.ContainsFunc(r.Exempt, func(e Rule) bool {
		reached := len(e.Paths) == 0 || slices.ContainsFunc(e.Paths, func(p string) bool { return pathProblem(p) == "" && meets(p, path) })
		return reached && (len(e.Methods) == 0 || slices.Contains(e.Methods, http.MethodPost)) && meet(e.Hosts, protect.Hosts, sameHost)
	})
}

// loop refuses a shop that is the gate itself.
func (k *checker) loop(key, shop string) {
	u, err := url.Parse(shop)
	if err != nil || !k.judge("listen", key) {
		return
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	host, own, err := net.SplitHostPort(k.c.Listen)
	if err != nil || own != port || own == "0" || !isLoopback(net.JoinHostPort(u.Hostname(), port)) {
		return
	}
	if everywhere := host == "" || host == "0.0.0.0" || host == "::"; everywhere || isLoopback(k.c.Listen) {
		k.fail(key, "is the gate's own address (listen is %s): requests would go round; name the address of the shop%s", k.c.Listen, got(shop))
	}
}
