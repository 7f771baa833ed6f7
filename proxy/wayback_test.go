package proxy_test

import (
	"encoding/json"
	"html"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// awayFromHere are ways back that a browser could take for another site or for a
// script, that would break a header, or that lead back to the gate itself.
var awayFromHere = []string{
	"", "evil.test", "//evil.test", "///evil.test", `/\evil.test`, `\\evil.test`, `/\/evil.test`, "/\t/evil.test", "\t//evil.test", " //evil.test",
	"/ /evil.test", "/%09/evil.test", "/%5cevil.test", "/%5C/evil.test", "/%2f/evil.test", "/%2F%2fevil.test", "/..//evil.test", "/./%2fevil.test", "/x/..//evil.test",
	"https:evil.test", "https://evil.test/", "HTTPS://evil.test", "http://shop.test@evil.test/", "https:/evil.test", "javascript:alert(1)", "JaVaScRiPt:alert(1)",
	"java\nscript:alert(1)", "data:text/html,evil", "vbscript:evil", "blob:evil", "?next=evil", "#evil", "/x\r\nX-Evil: 1", "/x%0d%0aX-Evil:%201", "/x\nevil", "/\x00evil",
	"/%zzevil", "/_queue/sale", "/_QUEUE/sale", "/%5fqueue/sale", "/x/../_queue/sale?evil", "/evil\u3000", "/" + strings.Repeat("a", 2000) + "evil",
}

// stayHere are ways back that are the shop's business alone.
var stayHere = []string{
	"/", "/order", "/order/item?id=7&c=a%20b+c", "/order?next=https://shop.example/a%7Cb&x=//y", "/order?u=javascript:x&v=%0d%0a&w=%5c", "/a?q='()*!~[]{}|^`",
	"/order/item?id=7#seat", "/%ED%95%9C%EA%B8%80?x=%2F%2f&y=%", "/about?r=/_queue/sale", "/a;b=c/d?e;f",
}

// ledTo is where a page leads when it is somebody's turn.
func ledTo(t *testing.T, got reply) string {
	t.Helper()
	if to := got.Header.Get("Location"); to != "" {
		return to
	}
	m := regexp.MustCompile(`id="continue" [^>]*href="([^"]*)"`).FindStringSubmatch(got.text)
	require.NotNil(t, m, "%d %s", got.StatusCode, got.text)
	return html.UnescapeString(m[1])
}

// returnBody is the body of a join that names a way back.
func returnBody(t *testing.T, back string) string {
	t.Helper()
	raw, err := json.Marshal(map[string]string{"return_to": back})
	require.NoError(t, err)
	return string(raw)
}

func TestNoWayBackLeadsAway(t *testing.T) {
	b := newBench(t)
	pass := b.pass()
	b.fill()
	for name, follow := range map[string]func(t *testing.T, back string) string{
		"the page of somebody in line": func(t *testing.T, back string) string {
			return ledTo(t, b.navigate("/_queue/sale?return="+url.QueryEscape(back)))
		},
		"the page of a form that was turned away": func(t *testing.T, back string) string {
			return ledTo(t, b.navigate("/_queue/sale?sent=1&return="+url.QueryEscape(back)))
		},
		"the page of somebody with a pass": func(t *testing.T, back string) string {
			return ledTo(t, b.navigate("/_queue/sale?return="+url.QueryEscape(back), "Cookie: queuegate_entry_sale="+pass))
		},
		"the body of a join, which the ticket keeps": func(t *testing.T, back string) string {
			ticket := b.call("POST", "/_queue/sale/join", returnBody(t, back)).doc(t)["ticket"].(string)
			return ledTo(t, b.navigate("/_queue/sale", "Cookie: queuegate_ticket_sale="+ticket))
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, back := range awayFromHere {
				require.Equal(t, "/order", follow(t, back), "%q", back)
			}
			for _, back := range stayHere {
				require.Equal(t, back, follow(t, back))
			}
		})
	}
}

// A form that was not accepted leads back to the page it stands on, when that is a
// page of this site.
func TestNoRefererLeadsAway(t *testing.T) {
	b := newBench(t)
	b.fill()
	send := func(t *testing.T, referer string) string {
		return ledTo(t, b.do("POST", "/order/submit", "a=1", "Content-Type: application/x-www-form-urlencoded", "Sec-Fetch-Mode: navigate",
			"Accept: "+browserAccept, "Referer: "+referer))
	}
	for _, back := range awayFromHere {
		if strings.ContainsAny(back, "\r\n\x00") || strings.HasPrefix(back, "?") || strings.HasPrefix(back, "#") || back == "" {
			continue // no Referer, or a page of this site
		}
		require.Equal(t, "/order", send(t, back), "%q", back)
		if strings.HasPrefix(back, "/") {
			require.NotRegexp(t, `^/[/\\]`, send(t, "http://shop.test"+back), "%q", back)
		}
	}
	for _, back := range stayHere {
		want, _, _ := strings.Cut(back, "#")
		require.Equal(t, want, send(t, "http://shop.test"+back))
	}
}
