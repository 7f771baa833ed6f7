package proxy_test

import (
	"bufio"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/queuegate/queuegate/proxy"
	"github.com/queuegate/queuegate/proxy/route/routetest"
	"github.com/queuegate/queuegate/token"
)

// asker is a front proxy: how it asks about a request, and what says no to it.
type asker struct {
	name   string
	divert int
	ask    func(b *bench, method, target string, lines ...string) reply
}

var askers = []asker{
	{"nginx", 401, func(b *bench, method, target string, lines ...string) reply {
		return b.do("GET", "/_queue/auth", "", append(lines, "X-Original-URI: "+target, "X-Original-Method: "+method)...)
	}},
	{"Traefik and Caddy", 429, func(b *bench, method, target string, lines ...string) reply {
		host, kept := "shop.test", []string{"Host: gate:8080"}
		for _, line := range lines {
			if h, ok := strings.CutPrefix(line, "Host: "); ok {
				host = h
			} else {
				kept = append(kept, line)
			}
		}
		return b.do("GET", "/_queue/auth", "", append(kept,
			"X-Forwarded-Uri: "+target, "X-Forwarded-Method: "+method, "X-Forwarded-Host: "+host, "X-Forwarded-Proto: http")...)
	}},
	{"Envoy", 429, func(b *bench, method, target string, lines ...string) reply {
		return b.do(method, "/_queue/auth"+target, "", append(lines, "Content-Length: 0")...)
	}},
}

// each runs f with a new bench for each kind of front proxy.
func each(t *testing.T, f func(t *testing.T, b *bench, by asker), change ...func(*proxy.Options)) {
	for _, by := range askers {
		t.Run(by.name, func(t *testing.T) { f(t, newBench(t, append(change, trustLoopback)...), by) })
	}
}

func TestFrontProxyLearnsWhoMayPass(t *testing.T) {
	each(t, func(t *testing.T, b *bench, by asker) {
		ready := b.call("GET", "/order", "").Header.Get("X-Entry-Token")
		b.line.take()

		open := by.ask(b, "GET", "/about?x=1")
		require.Equal(t, 200, open.StatusCode)
		require.Equal(t, 200, by.ask(b, "GET", "/robots.txt").StatusCode)
		require.Equal(t, 200, by.ask(b, "POST", "/order/callback").StatusCode)
		for _, name := range []string{"Set-Cookie", "X-Queuegate-Room", "X-Queuegate-Visitor", "X-Queuegate-Admission"} {
			require.Empty(t, open.Header.Values(name), name)
		}
		require.Empty(t, b.line.take(), "Redis is not asked for what nobody guards")

		newcomer := by.ask(b, "GET", "/order?a=1&b=2", "Accept: "+browserAccept)
		require.Equal(t, by.divert, newcomer.StatusCode)
		require.Equal(t, "sale", newcomer.Header.Get("X-Queuegate-Room"))
		require.Equal(t, "/_queue/sale?return=%2Forder%3Fa%3D1%26b%3D2", newcomer.Header.Get("X-Queuegate-Page"))
		require.Equal(t, "no-store", newcomer.Header.Get("Cache-Control"))
		require.Regexp(t, `^[1-9]\d*$`, newcomer.Header.Get("Retry-After"))
		require.Empty(t, newcomer.Header.Values("Set-Cookie"))
		require.Empty(t, newcomer.Header.Values("Location"))
		require.Empty(t, b.line.take(), "whoever asks joins nobody")

		claimed := by.ask(b, "GET", "/order", "Cookie: queuegate_entry_sale="+ready)
		require.Equal(t, 200, claimed.StatusCode)
		require.Equal(t, []string{"claim"}, b.line.take())
		active := claimed.cookie("queuegate_entry_sale").Value
		p, err := b.passes.Verify(active, "sale")
		require.NoError(t, err)
		require.Equal(t, token.Active, p.Stage)
		require.Equal(t, "sale", claimed.Header.Get("X-Queuegate-Room"))
		require.Equal(t, p.Visitor, claimed.Header.Get("X-Queuegate-Visitor"))
		require.Equal(t, p.Admission, claimed.Header.Get("X-Queuegate-Admission"))
		require.Empty(t, claimed.Header.Values("X-Entry-Token"), "the shop gets it only when it is told so")

		again := by.ask(b, "POST", "/order", "X-Entry-Token: "+active)
		require.Equal(t, 200, again.StatusCode)
		require.Empty(t, again.Header.Values("Set-Cookie"))
		require.Equal(t, p.Visitor, again.Header.Get("X-Queuegate-Visitor"))
		require.Equal(t, by.divert, by.ask(b, "GET", "/drop", "X-Entry-Token: "+active).StatusCode, "a pass of another room")
		require.Equal(t, by.divert, by.ask(b, "GET", "/order", "X-Entry-Token: "+active+"x").StatusCode)

		b.line.advance(b.line.session)
		require.Equal(t, 200, by.ask(b, "GET", "/order", "X-Entry-Token: "+active).StatusCode, "past its end, and nobody took its slot")
		b.call("POST", "/_queue/sale/release", "", "X-Entry-Token: "+active)
		require.Equal(t, by.divert, by.ask(b, "GET", "/order", "X-Entry-Token: "+active).StatusCode)
		require.Len(t, b.shop.requests(), 1, "asking sends nothing to the shop")
		require.Contains(t, b.log.String(), `"decision":"allowed","reason":"claimed"`)
		require.Contains(t, b.log.String(), `"decision":"queued","reason":"no_pass"`)
	})
}

func TestFrontProxyIsToldTheSameAsTheGateDecides(t *testing.T) {
	each(t, func(t *testing.T, b *bench, by asker) {
		b.fill()
		allowed := 0
		for _, head := range heads() {
			line, fields, _ := strings.Cut(head, "\t")
			method, target, _ := strings.Cut(line, " ")
			r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(routetest.Raw(head))))
			var lines []string
			for f := range strings.SplitSeq(fields, "\t") {
				if f != "" && !strings.HasPrefix(f, "Host:") && !strings.HasPrefix(f, "Content-Length") &&
					!strings.HasPrefix(f, "Transfer-Encoding") && !strings.HasPrefix(f, "Connection") {
					lines = append(lines, f)
				}
			}
			if err != nil || !strings.HasPrefix(target, "/") || strings.Contains(head, "preflight") || r.ContentLength != 0 {
				continue // no front proxy could hand it on
			}
			if by.name == "Envoy" && method == "CONNECT" {
				continue // it tells only what HTTP lets it ask with
			}
			e := b.gate.Explain(r)
			if strings.Contains(strings.ToLower(head), "x-original-") || strings.Contains(strings.ToLower(head), "x-forwarded-uri") {
				continue // told twice: TestFrontProxyThatTellsNoOneRequestIsRefused
			}
			got := by.ask(b, method, target, lines...)
			switch e.Verdict {
			case proxy.VerdictOpen, proxy.VerdictExempt, proxy.VerdictOff:
				allowed++
				require.Equal(t, 200, got.StatusCode, "%q", head)
			case proxy.VerdictProtected:
				require.Equal(t, by.divert, got.StatusCode, "%q", head)
			case proxy.VerdictOwn:
				require.Equal(t, 403, got.StatusCode, "%q", head)
			default: // Envoy asks with the original line itself, which the server may refuse as well
				require.Contains(t, []int{403, 400}, got.StatusCode, "%q", head)
			}
		}
		require.Greater(t, allowed, 20)
	}, withRoomOff)
}

func TestOnlyATrustedProxyMayAsk(t *testing.T) {
	for _, by := range askers {
		b := newBench(t)
		for _, target := range []string{"/about", "/order"} {
			got := by.ask(b, "GET", target)
			require.Equal(t, 403, got.StatusCode, by.name)
			require.Equal(t, "urn:queuegate:problem:untrusted-proxy", got.doc(t)["type"])
		}
		require.Contains(t, b.log.String(), `"decision":"refused","reason":"untrusted_peer","status":403`)
	}
}

func TestFrontProxyThatTellsNoOneRequestIsRefused(t *testing.T) {
	b := newBench(t, trustLoopback)
	pass := "X-Entry-Token: " + b.admit()
	for name, lines := range map[string][]string{
		"nothing":                        nil,
		"a target without a method":      {"X-Original-URI: /about"},
		"a method without a target":      {"X-Original-Method: GET"},
		"an empty target":                {"X-Original-URI: ", "X-Original-Method: GET"},
		"two targets":                    {"X-Original-URI: /about", "X-Original-URI: /order", "X-Original-Method: GET"},
		"the same target twice":          {"X-Original-URI: /about", "X-Original-URI: /about", "X-Original-Method: GET"},
		"two methods":                    {"X-Original-URI: /about", "X-Original-Method: GET", "X-Original-Method: POST"},
		"both pairs":                     {"X-Original-URI: /about", "X-Original-Method: GET", "X-Forwarded-Uri: /order", "X-Forwarded-Method: GET", "X-Forwarded-Host: shop.test"},
		"a client's header beside nginx": {"X-Original-URI: /order", "X-Original-Method: GET", "X-Forwarded-Uri: /about"},
		"no host":                        {"X-Forwarded-Uri: /about", "X-Forwarded-Method: GET"},
		"two hosts":                      {"X-Forwarded-Uri: /about", "X-Forwarded-Method: GET", "X-Forwarded-Host: a", "X-Forwarded-Host: b"},
		"a spelling of CGI":              {"X_Original_URI: /about", "X_Original_Method: GET"},
	} {
		got := b.do("GET", "/_queue/auth", "", append(lines, pass)...)
		require.Equal(t, 403, got.StatusCode, name)
		require.Equal(t, "urn:queuegate:problem:forwarded", got.doc(t)["type"], name)
	}
	beside := b.do("GET", "/_queue/auth/about", "", "X-Original-URI: /order", "X-Original-Method: GET")
	require.Equal(t, 403, beside.StatusCode, "a client's header beside Envoy")
	require.Contains(t, b.log.String(), `"reason":"forwarded"`)
	require.Equal(t, 404, b.do("GET", "/_queue/AUTH", "", "X-Original-URI: /about", "X-Original-Method: GET").StatusCode)
	require.Equal(t, 404, b.do("GET", "/_queue/authority", "").StatusCode)
}

func TestFrontProxyAndRedisAway(t *testing.T) {
	for _, c := range []struct {
		policy              proxy.OnRedisError
		newcomer, holder    bool
		unclaimed, exempted bool
	}{
		{proxy.OnRedisErrorClosed, false, true, true, true},
		{proxy.OnRedisErrorOpen, true, true, true, true},
		{proxy.OnRedisErrorStrict, false, false, false, true},
	} {
		each(t, func(t *testing.T, b *bench, by asker) {
			ready := b.call("GET", "/order", "").Header.Get("X-Entry-Token")
			active := b.pass()
			b.line.lose()
			expect := func(pass bool, got reply, who string) {
				t.Helper()
				want := by.divert
				if pass {
					want = 200
				}
				require.Equal(t, want, got.StatusCode, "%s: %s", c.policy, who)
			}
			expect(c.newcomer, by.ask(b, "GET", "/order"), "a newcomer")
			expect(false, by.ask(b, "GET", "/order", "Sec-Purpose: prefetch"), "a prefetch")
			expect(c.holder, by.ask(b, "GET", "/order", "X-Entry-Token: "+active), "the admitted")
			expect(c.unclaimed, by.ask(b, "GET", "/order", "X-Entry-Token: "+ready), "a pass not taken up")
			expect(c.exempted, by.ask(b, "GET", "/about"), "an unprotected route")
			if c.policy == proxy.OnRedisErrorClosed {
				require.Contains(t, b.log.String(), `"reason":"degraded"`)
			}
		}, func(o *proxy.Options) { o.Rooms[0].OnRedisError, o.Rooms[0].MaxInFlight = c.policy, 5 })
	}
}

func TestDivertedAnswerSuitsItsReader(t *testing.T) {
	each(t, func(t *testing.T, b *bench, by asker) {
		b.fill()
		page := by.ask(b, "GET", "/order?q=\"><script>", "Accept: "+browserAccept)
		require.Equal(t, "text/html; charset=utf-8", page.Header.Get("Content-Type"))
		require.Contains(t, page.text, `content="0;url=/_queue/sale?return=%2Forder%3Fq%3D%22%3E%3Cscript%3E"`)
		require.NotContains(t, page.text, "<script>")
		require.Contains(t, page.Header.Get("Content-Security-Policy"), "default-src 'none'")

		form := by.ask(b, "POST", "/order/submit", "Accept: "+browserAccept, "Referer: http://shop.test/order/form?step=2")
		require.Equal(t, "/_queue/sale?return=%2Forder%2Fform%3Fstep%3D2&sent=1", form.Header.Get("X-Queuegate-Page"))
		foreign := by.ask(b, "POST", "/order/submit", "Accept: "+browserAccept, "Referer: http://evil.test/order/form")
		require.Equal(t, "/_queue/sale?return=%2Forder&sent=1", foreign.Header.Get("X-Queuegate-Page"))

		call := by.ask(b, "POST", "/order", "Accept: application/json")
		require.Equal(t, "application/problem+json", call.Header.Get("Content-Type"))
		require.Equal(t, "urn:queuegate:problem:queued", call.doc(t)["type"])
		require.Equal(t, "sale", call.doc(t)["room"])
		socket := by.ask(b, "GET", "/order/live", "Sec-Fetch-Mode: websocket")
		require.Equal(t, "text/plain; charset=utf-8", socket.Header.Get("Content-Type"))
		require.Empty(t, b.line.take())
	})
}

func TestDivertedVisitorJoinsOnThePage(t *testing.T) {
	b := newBench(t, trustLoopback)
	nginx := askers[0]
	visit := func(diverted reply, lines ...string) reply {
		return b.do("GET", diverted.Header.Get("X-Queuegate-Page"), "", lines...)
	}
	t.Run("and goes back at once where there is room", func(t *testing.T) {
		got := visit(nginx.ask(b, "GET", "/order?id=7"), "Accept: "+browserAccept)
		require.Equal(t, 303, got.StatusCode)
		require.Equal(t, "/order?id=7", got.Header.Get("Location"))
		pass := got.cookie("queuegate_entry_sale").Value
		require.Equal(t, 200, nginx.ask(b, "GET", "/order?id=7", "Cookie: queuegate_entry_sale="+pass).StatusCode)
	})
	b.fill()
	t.Run("a person waits on it", func(t *testing.T) {
		got := visit(nginx.ask(b, "GET", "/order?id=7"), "Accept: "+browserAccept)
		require.Equal(t, 429, got.StatusCode)
		require.Contains(t, got.text, `data-state="waiting"`)
		require.Contains(t, got.text, `href="/order?id=7"`)
		require.NotContains(t, got.text, "has not reached the shop")
	})
	t.Run("a form is not accepted and leads back to its page", func(t *testing.T) {
		got := visit(nginx.ask(b, "POST", "/order/submit", "Accept: "+browserAccept, "Referer: http://shop.test/order/form"), "Accept: "+browserAccept)
		require.Equal(t, 429, got.StatusCode)
		require.Contains(t, got.text, "What you sent has not reached the shop")
		require.Contains(t, got.text, `href="/order/form"`)
		require.NotContains(t, got.text, "/order/submit")
	})
	t.Run("a form is not accepted where there is room either", func(t *testing.T) {
		b := newBench(t, trustLoopback)
		got := b.do("GET", nginx.ask(b, "POST", "/order/submit", "Accept: "+browserAccept).Header.Get("X-Queuegate-Page"), "", "Accept: "+browserAccept)
		require.Equal(t, 429, got.StatusCode)
		require.Empty(t, got.Header.Get("Location"), "a form that becomes a page looks accepted")
		require.Contains(t, got.text, "What you sent has not reached the shop")
		require.NotNil(t, got.cookie("queuegate_entry_sale"))
	})
	t.Run("a program gets its place and sends again", func(t *testing.T) {
		b := newBench(t, trustLoopback)
		ready := b.do("GET", nginx.ask(b, "POST", "/order").Header.Get("X-Queuegate-Page"), "", "Accept: application/json")
		require.Equal(t, 429, ready.StatusCode, "2xx would say that the order was taken")
		require.Equal(t, "ready", ready.doc(t)["status"])
		again := b.do("GET", "/_queue/sale", "", "Accept: application/json", "X-Entry-Token: "+ready.doc(t)["entry_token"].(string))
		require.Equal(t, 429, again.StatusCode)
		b.fill()
		waits := b.do("GET", "/_queue/sale", "", "Accept: application/json")
		require.Equal(t, "application/json", waits.Header.Get("Content-Type"))
		require.EqualValues(t, 1, waits.doc(t)["position"])
		require.NotEmpty(t, waits.doc(t)["ticket"])
	})
	t.Run("a stay that is over is said once and then forgotten", func(t *testing.T) {
		for _, kind := range []string{"entry", "ticket"} {
			b := newBench(t, trustLoopback)
			pass := b.admit()
			cookies := []string{"Cookie: queuegate_entry_sale=" + pass}
			if kind == "ticket" {
				b.fill()
				cookies[0] = "Cookie: queuegate_ticket_sale=" + b.call("POST", "/_queue/sale/join", "").doc(t)["ticket"].(string)
				require.Equal(t, 200, b.call("DELETE", "/_queue/sale", "", cookies...).StatusCode)
			} else {
				require.Equal(t, 200, b.call("POST", "/_queue/sale/release", "", cookies...).StatusCode)
				b.fill()
			}
			page := nginx.ask(b, "GET", "/order?id=7", append(cookies, "Accept: "+browserAccept)...).Header.Get("X-Queuegate-Page")
			got := b.do("GET", page, "", append(cookies, "Accept: "+browserAccept)...)
			require.Contains(t, got.text, map[string]string{"ticket": `data-state="left"`, "entry": `data-state="ended"`}[kind])
			require.Negative(t, got.cookie("queuegate_"+kind+"_sale").MaxAge, "%s: else nobody could ever join again", kind)
			require.Contains(t, b.do("GET", page, "", "Accept: "+browserAccept).text, `data-state="waiting"`, kind)
		}
	})
	t.Run("what nobody waits for gets no place", func(t *testing.T) {
		before := b.line.seq
		require.Equal(t, 429, b.do("GET", "/_queue/sale", "", "Sec-Fetch-Mode: websocket").StatusCode)
		require.Equal(t, 429, b.do("GET", "/_queue/sale", "", "Sec-Fetch-Dest: image").StatusCode)
		require.Equal(t, 429, b.do("HEAD", "/_queue/sale", "").StatusCode)
		require.Equal(t, before, b.line.seq)
	})
}

func TestPageOfAFormThatWasTurnedAwayLeadsNowhereElse(t *testing.T) {
	b := newBench(t)
	b.fill()
	for _, back := range []string{"//evil.test", "https://evil.test/", "/_queue/sale"} {
		got := b.navigate("/_queue/sale?sent=1&return=" + url.QueryEscape(back))
		require.Contains(t, got.text, `href="/order"`)
		require.NotContains(t, got.text, "evil.test")
	}
}

func TestPassGoesToTheShopThroughTheFrontProxyWhenConfigured(t *testing.T) {
	each(t, func(t *testing.T, b *bench, by asker) {
		pass := b.pass()
		require.Equal(t, pass, by.ask(b, "GET", "/order", "X-Entry-Token: "+pass).Header.Get("X-Entry-Token"))
	}, func(o *proxy.Options) { o.Rooms[0].ForwardToken = true })
}

func TestStatusIsAnsweredToHeadAsToGet(t *testing.T) {
	b := newBench(t)
	get := b.do("GET", "/_queue/sale/status", "")
	head := b.do("HEAD", "/_queue/sale/status", "")
	require.Equal(t, 200, head.StatusCode)
	require.Empty(t, head.text)
	for _, name := range []string{"Content-Type", "Content-Length", "Cache-Control"} {
		require.NotEmpty(t, head.Header.Get(name), name)
		if name != "Content-Length" { // poll_after_ms is spread
			require.Equal(t, get.Header.Get(name), head.Header.Get(name))
		}
	}
	require.Equal(t, 405, b.do("HEAD", "/_queue/sale/join", "").StatusCode)
}
