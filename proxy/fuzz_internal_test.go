package proxy

import (
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzAccept: what an Accept header prefers is what a second, plainer reading of it
// says, however it is split, spaced and spelled; and whoever is no browser opening a
// page never gets one.
func FuzzAccept(f *testing.F) {
	for _, accept := range []string{
		"", "*/*", "application/json, text/plain, */*", "application/vnd.api+json", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
		"application/json, text/html;q=0.9", "text/html;q=0, */*", "text/html;q=x", "image/avif,*/*;q=0.8", "text/event-stream", "text/html; level=1; Q=0.5, application/json;q=0.5",
		"TEXT/HTML", "text/html;q=1e0", "text/html;q=+1", "text/html;q=NaN", "text/html;q=0x1p-1", ",,;q=1,", "a/b;q=1;q=0",
	} {
		f.Add("GET", accept, "navigate", "", "")
		f.Add("POST", accept, "", "empty", "")
		f.Add("HEAD", accept, "cors", "image", "prefetch")
	}
	f.Fuzz(func(t *testing.T, method, accept, mode, dest, purpose string) {
		got := preferred([]string{accept})
		require.Equal(t, plainlyPreferred(accept), got, "%q", accept)
		require.Equal(t, got, preferred(strings.Split(accept, ",")), "split in lines")
		require.Equal(t, got, preferred([]string{strings.ReplaceAll(accept, ",", " ,\t")}), "with blanks")
		require.Equal(t, got, preferred([]string{accept, "*/*;q=0.1"}), "whoever takes anything prefers what they named")

		h := http.Header{}
		for name, value := range map[string]string{"Accept": accept, "Sec-Fetch-Mode": mode, "Sec-Fetch-Dest": dest, "Sec-Purpose": purpose} {
			if value != "" {
				h.Set(name, value)
			}
		}
		who := callerOf(&http.Request{Method: method, Header: h})
		ahead := strings.Contains(strings.ToLower(purpose), "prefetch")
		require.Equal(t, true, who == passive || method != "HEAD" && !ahead, "a HEAD or a prefetch has no place")
		if who == navigation && !strings.EqualFold(mode, "navigate") {
			require.Empty(t, mode)
			require.Regexp(t, `(?i)html`, accept, "a page for somebody who did not name one")
		}
	})
}

var mediaRange = regexp.MustCompile(`^[ \t]*([^;]*?)[ \t]*((?:;.*)?)$`)

// plainlyPreferred sorts what is named by quality, the first named first.
func plainlyPreferred(accept string) wish {
	type named struct {
		kind string
		q    float64
	}
	var all []named
	for _, part := range strings.Split(accept, ",") {
		m := mediaRange.FindStringSubmatch(strings.ReplaceAll(part, "\n", " "))
		kind := strings.ToLower(strings.TrimSpace(m[1]))
		q := 1.0
		for _, p := range strings.Split(m[2], ";") {
			if name, value, _ := strings.Cut(p, "="); strings.ToLower(strings.TrimSpace(name)) == "q" {
				var err error
				if q, err = strconv.ParseFloat(strings.TrimSpace(value), 64); err != nil || q < 0 || q > 1 || q != q {
					q = 0
				}
				break
			}
		}
		if q > 0 && kind != "" {
			all = append(all, named{kind, q})
		}
	}
	isData := func(n named) bool { return n.kind == "application/json" || strings.HasSuffix(n.kind, "+json") }
	isPage := func(n named) bool { return n.kind == "text/html" || n.kind == "application/xhtml+xml" }
	chosen := slices.DeleteFunc(slices.Clone(all), func(n named) bool { return isPage(n) == isData(n) })
	slices.SortStableFunc(chosen, func(a, b named) int { return int(min(1, max(-1, (b.q-a.q)*1e300))) })
	switch {
	case len(chosen) > 0 && isPage(chosen[0]):
		return wantsPage
	case len(chosen) > 0:
		return wantsData
	}
	asset := regexp.MustCompile(`^(text/css|(image|font|audio|video)/.*)$`)
	rest := slices.DeleteFunc(all, func(n named) bool { return n.kind == "*/*" })
	if len(rest) > 0 && !slices.ContainsFunc(rest, func(n named) bool { return !asset.MatchString(n.kind) }) {
		return wantsAsset
	}
	return wantsData
}

// FuzzCookies: the shop reads every cookie that is not ours, in order, and none that
// is, however the lines are written; and what a browser would send back of the
// shop's own never has one of our names.
func FuzzCookies(f *testing.F) {
	for _, line := range []string{
		"a=1; b=2", "a=1; queuegate_entry_sale=x.y.z; b=2", "queuegate_ticket_sale=good; queuegate_ticket_sale=evil", "__Host-queuegate_entry_sale=t",
		`a="x; queuegate_entry_sale=t"; b=2`, "queuegate_entry_sale", "=queuegate_entry_sale=t", " queuegate_entry_sale =t", "a=1;;; ;b=2", "a=1,queuegate_entry_sale=t",
		"QUEUEGATE_ENTRY_SALE=t", "queuegate_entry_=;queuegate_other=1", "\tqueuegate_ticket_sale=t; Path=/; HttpOnly", "__Host-__Host-queuegate_entry_sale=t",
		`queuegate_entry_sale="t"; queuegate_entry_sale="`, `queuegate_entry_sale=a\b; queuegate_entry_sale="a"b"`,
	} {
		f.Add(line, "a=1; b=\"2\"")
		f.Add("s=1", line)
	}
	bake := newBaker("sale", Cookie{})
	f.Fuzz(func(t *testing.T, first, second string) {
		lines := []string{first, second}
		before := (&http.Request{Header: http.Header{"Cookie": lines}}).Cookies()
		left := stripOurs(slices.Clone(lines))
		after := (&http.Request{Header: http.Header{"Cookie": left}}).Cookies()
		kept := slices.DeleteFunc(slices.Clone(before), func(c *http.Cookie) bool { return ourCookie(c.Name) })
		require.Equal(t, kept, after, "%q became %q", lines, left)
		require.Equal(t, left, stripOurs(slices.Clone(left)), "once is enough")

		r := &http.Request{Header: http.Header{"Cookie": lines}}
		for _, kind := range []string{ticketCookie, entryCookie} {
			values := bake.read(nil, r, kind)
			require.LessOrEqual(t, len(values), maxTwins)
			for _, v := range values {
				require.True(t, slices.ContainsFunc(before, func(c *http.Cookie) bool { return c.Value == v && ourCookie(c.Name) }))
			}
			var want []string
			for _, name := range bake.names(kind) {
				for _, c := range r.CookiesNamed(name) {
					want = append(want, c.Value)
				}
			}
			if len(before) > 0 || len(values) == 0 { // of more than 3,000 it reads none
				require.Equal(t, want[:min(len(want), maxTwins)], values, "as net/http reads them")
			}
		}
		set := []string{first, second}
		for _, line := range dropOurs(slices.Clone(set)) {
			require.Contains(t, set, line, "the shop's own keep their bytes")
			for _, back := range (&http.Request{Header: http.Header{"Cookie": {sentBack(line)}}}).Cookies() {
				require.False(t, ourCookie(back.Name), "Set-Cookie %q comes back as %q", line, back)
			}
		}
	})
}

// sentBack is the Cookie line that a browser makes of a Set-Cookie line, after the
// algorithms of RFC 6265bis: a cookie without a name is sent as its value alone.
func sentBack(line string) string {
	if i := strings.IndexAny(line, "\x00\r\n"); i >= 0 {
		line = line[:i]
	}
	pair, _, _ := strings.Cut(line, ";")
	name, value, named := strings.Cut(pair, "=")
	if !named {
		name, value = "", pair
	}
	if name, value = strings.Trim(name, " \t"), strings.Trim(value, " \t"); name == "" {
		return value
	}
	return name + "=" + value
}

// FuzzSafeReturn: a way back that is taken stays on this site, by the URL Standard's
// reading and by Go's, and is what was asked for byte for byte.
func FuzzSafeReturn(f *testing.F) {
	for _, s := range []string{
		"/", "/order?next=https://shop.example/a%7Cb&x=//y", "//evil.test", `/\evil.test`, "/%09/evil.test", "https:evil.test", "///evil.test", "/..//evil.test", "/.//evil.test",
		"/x/..;/%2fevil.test", "/%2e%2e//evil.test", "/%2e/%2fevil.test", "/a#//evil.test", "/a?b#c", "javascript:1", "/\r\nX: 1", "/%0d%0aX:1", "/;//evil.test", "/%252f/evil.test",
	} {
		f.Add(s)
	}
	here := &url.URL{Scheme: "https", Host: "shop.test", Path: "/order"}
	f.Fuzz(func(t *testing.T, s string) {
		got := safeReturn(s)
		if got == "" {
			return
		}
		require.Equal(t, s, got)
		require.Equal(t, got, strings.Map(printableASCII, got))
		require.LessOrEqual(t, len(got), maxReturn)
		u, err := here.Parse(got)
		require.NoError(t, err)
		require.Equal(t, "https://shop.test", u.Scheme+"://"+u.Host)
		require.Equal(t, "/", got[:1])
		path := strings.FieldsFunc(got+"?", func(r rune) bool { return r == '?' || r == '#' })[0]
		for range 2 { // what a browser resolves, and a server that decodes before it redirects
			require.NotRegexp(t, `^[/\\]{2}`, resolvedDots(path), "a browser takes %q for a host", got)
			path, _ = url.PathUnescape(path)
		}
	})
}

func printableASCII(r rune) rune {
	if r <= ' ' || r >= 0x7f {
		return -1
	}
	return r
}

// resolvedDots resolves dot segments as browsers do, which keep empty segments.
func resolvedDots(p string) string {
	var out []string
	for _, s := range strings.Split(strings.ReplaceAll(p, `\`, "/"), "/")[1:] {
		switch strings.ReplaceAll(strings.ToLower(s), "%2e", ".") {
		case ".":
		case "..":
			out = out[:max(0, len(out)-1)]
		default:
			out = append(out, s)
		}
	}
	return "/" + strings.Join(out, "/")
}
