package main_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/http2"
)

// h2Front is a gate that speaks HTTP/2, and the address at which a client of the
// same kind finds the shop without it.
type h2Front struct {
	name, direct string
	gate         *gate
	pass         string // of somebody inside
}

// h2Fronts are gates before s: with TLS, and without for who begins with HTTP/2.
func h2Fronts(t *testing.T, s *h2Shop) []h2Front {
	t.Helper()
	cert, key := t.TempDir()+"/tls.crt", t.TempDir()+"/tls.key"
	pair(t, "gate", cert, key)
	fronts := []h2Front{{name: "TLS", direct: s.tls}, {name: "h2c", direct: s.plain}}
	for i, more := range []string{fmt.Sprintf("tls: {cert_file: %q, key_file: %q}", cert, key), "h2c: true"} {
		f := &fronts[i]
		f.gate = startGate(t, writeConfig(t, plan{rooms: room("total_active_users: 1, session_duration: 1h"), more: more}, s.plain, ""))
		f.gate.waitReady(t)
		s.does(func(_ http.ResponseWriter, r *http.Request) { s.note(r) })
		c := dialH2(t, f.gate.url)
		id := c.begin(true, to("GET", "/checkout")...) // nobody is there: it is admitted and served
		got := c.end(id)
		require.Equal(t, "200", got.status(), "%s", got.body)
		f.pass = got.heads[0]["x-entry-token"][0]
		id = c.begin(true, to("GET", "/checkout", "x-entry-token", f.pass)...)
		got = c.end(id)
		require.Equal(t, "200", got.status(), "%s", got.body)
		f.pass = got.heads[0]["x-entry-token"][0]
	}
	return fronts
}

// h2Played is a request and an answer as the other side got them.
type h2Played struct {
	requests []requestSeen
	answer   h2Stream
}

// h2Tape is a request, written as frames, and what the shop answers.
type h2Tape struct {
	name, method, query string
	fields              []string
	body                []string // one for each piece; nil when the head ends the request
	trailers            []string
	answer              http.HandlerFunc
}

func (s *h2Shop) play(t *testing.T, address, path, pass string, tape h2Tape) h2Played {
	t.Helper()
	s.does(func(w http.ResponseWriter, r *http.Request) {
		s.note(r)
		tape.answer(w, r)
	})
	c := dialH2(t, address)
	defer c.close()
	fields := slices.Concat(to(tape.method, path+tape.query), tape.fields)
	if pass != "" {
		fields = append(fields, "x-entry-token", pass)
	}
	id := c.begin(tape.body == nil, fields...)
	for i, piece := range tape.body {
		c.data(id, i == len(tape.body)-1 && tape.trailers == nil, piece)
	}
	if tape.trailers != nil {
		c.trailers(id, tape.trailers...)
	}
	return h2Played{answer: c.end(id), requests: s.requests()}
}

// answers makes an answer of code, pairs of fields, and a body.
func answers(code int, body string, fields ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["Content-Type"] = nil
		for i := 0; i < len(fields); i += 2 {
			w.Header()[http.CanonicalHeaderKey(fields[i])] = append(w.Header()[http.CanonicalHeaderKey(fields[i])], fields[i+1])
		}
		w.WriteHeader(code)
		_, _ = io.WriteString(w, body)
	}
}

var h2Tapes = []h2Tape{
	{
		name: "duplicate and empty headers, an odd query", method: "GET", query: "?a=1;b=2&q=%zz&q=100%&x=%2B+%20&\"<|>^`{}\\\xc3\xbc",
		fields: []string{"x-twice", "1", "x-twice", "2", "x-empty", "", "x-high", "\xc3\xa9\xff", "accept-encoding", "br;q=1.0, *;q=0", "user-agent", "x", "te", "trailers"},
		answer: answers(200, "a\x00b", "Set-Cookie", "s1=1", "Set-Cookie", "s2=2; Path=/x", "Vary", "A", "Vary", "B", "Www-Authenticate", "Basic realm=\"a\"",
			"Www-Authenticate", "Bearer", "Cache-Control", "public, max-age=60", "Content-Type", "text/x; charset=odd", "Content-Length", "3", "X-Empty", ""),
	},
	{name: "no more than the pseudo headers", method: "GET", answer: answers(200, "", "Content-Length", "0")},
	{
		name: "cookies in crumbs and whole", method: "GET",
		fields: []string{"cookie", "a=1", "cookie", "b=\"2 3\"", "x-between", "1", "cookie", "c=3; d=4", "cookie", "a=5"},
		answer: answers(200, "ok"),
	},
	{name: "a request that its head ends", method: "POST", answer: answers(201, "", "Location", "/x/../y//z", "Content-Length", "0")},
	{name: "a body of no bytes, said so", method: "POST", fields: []string{"content-length", "0"}, body: []string{""}, answer: answers(204, "", "X-A", "b")},
	{name: "a body of no bytes, not said", method: "POST", body: []string{""}, answer: answers(200, "ok")},
	{
		name: "a body with a length, in gzip", method: "PUT", fields: []string{"content-encoding", "gzip", "content-length", "5"}, body: []string{"\x1f\x8b", "\x08\x00z"},
		answer: answers(200, "\x1f\x8b\x08\x00y", "Content-Encoding", "gzip", "Etag", "W/\"1\"", "Content-Length", "5"),
	},
	{name: "a body without a length", method: "PATCH", body: []string{"abc", "", "defg"}, answer: answers(200, "ok")},
	{name: "a GET with a body", method: "GET", fields: []string{"content-length", "4"}, body: []string{"body"}, answer: answers(200, "ok")},
	{
		name: "some MiB both ways, without a length", method: "POST", body: []string{mebibytes(3)},
		answer: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "x/y")
			for _, piece := range []string{mebibytes(1), mebibytes(2)} {
				_, _ = io.WriteString(w, piece)
				_ = http.NewResponseController(w).Flush()
			}
		},
	},
	{
		name: "some MiB both ways, with their length", method: "POST", fields: []string{"content-length", fmt.Sprint(3 << 20)}, body: []string{mebibytes(3)},
		answer: answers(200, mebibytes(3), "Content-Length", fmt.Sprint(3<<20)),
	},
	{
		name: "trailers both ways", method: "POST", fields: []string{"trailer", "x-sum, x-more", "te", "trailers"}, body: []string{"abc"},
		trailers: []string{"x-sum", "7", "x-more", "a", "x-more", "b"},
		answer: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Trailer", "X-Sum, X-More")
			w.Header().Set("Content-Type", "x/y")
			_, _ = io.WriteString(w, "hi")
			_ = http.NewResponseController(w).Flush()
			w.Header().Set("X-Sum", "2")
			w.Header()["X-More"] = []string{"a", "b"}
		},
	},
	{
		name: "trailers that nobody announced, as gRPC ends", method: "POST", fields: []string{"te", "trailers", "content-type", "application/grpc"}, body: []string{"\x00\x00\x00\x00\x00"},
		answer: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/grpc")
			_, _ = io.WriteString(w, "\x00\x00\x00\x00\x00")
			_ = http.NewResponseController(w).Flush()
			w.Header().Set(http.TrailerPrefix+"Grpc-Status", "0")
		},
	},
	{name: "a HEAD with the length of its GET", method: "HEAD", answer: answers(200, "", "Content-Length", "1234", "Etag", "\"e\"")},
	{
		name: "a conditional GET", method: "GET", fields: []string{"if-none-match", "\"e\", W/\"f\"", "if-modified-since", "Mon, 01 Jan 2024 00:00:00 GMT"},
		answer: answers(304, "", "Etag", "\"e\"", "Last-Modified", "Mon, 01 Jan 2024 00:00:00 GMT", "Cache-Control", "max-age=5", "Vary", "Accept"),
	},
	{
		name: "early hints", method: "GET",
		answer: func(w http.ResponseWriter, r *http.Request) {
			for _, hints := range [][]string{{"</a.css>; rel=preload", "</b.js>; rel=preload"}, {"</c>"}} {
				w.Header()["Link"] = hints
				w.WriteHeader(http.StatusEarlyHints)
			}
			w.Header().Del("Link")
			answers(200, ".", "Content-Length", "1")(w, r)
		},
	},
	{
		name: "a range", method: "GET", fields: []string{"range", "bytes=1-2", "if-range", "\"e\""},
		answer: answers(206, "bc", "Content-Range", "bytes 1-2/9", "Accept-Ranges", "bytes", "Content-Length", "2"),
	},
	{name: "an error of the shop", method: "GET", answer: answers(503, "down", "Retry-After", "7", "Content-Length", "4")},
	{name: "a redirect", method: "GET", answer: answers(302, "", "Location", "http://127.0.0.1:9000//x?y=%zz#f", "Content-Length", "0")},
	{name: "a method of WebDAV", method: "PROPFIND", fields: []string{"depth", "1", "content-length", "4"}, body: []string{"<a/>"}, answer: answers(207, "<b/>", "Content-Length", "4")},
	{name: "a method in small letters", method: "get", answer: answers(200, "ok")},
	{name: "an answer without a type", method: "GET", answer: answers(200, "<html>", "Content-Length", "6")},
}

// announced are the trailers that a head announces; their order means nothing.
func announced(head map[string][]string) []string {
	return slices.Sorted(strings.SplitSeq(strings.Join(head["trailer"], ", "), ", "))
}

func mebibytes(n int) string {
	text, _ := io.ReadAll(&pattern{left: int64(n) << 20})
	return string(text)
}

// TestWhatPassesOverHTTP2IsAsOnADirectConnection compares each tape played by the
// same client to the shop itself and through the gate.
func TestWhatPassesOverHTTP2IsAsOnADirectConnection(t *testing.T) {
	t.Parallel()
	shop := newH2Shop(t)
	for _, front := range h2Fronts(t, shop) {
		for _, tape := range h2Tapes {
			for _, route := range []struct {
				path, pass string
				added      []string
			}{{"/a%2Fb//c", "", nil}, {"/checkout/a%2fb", front.pass, addedToAdmitted}} {
				t.Run(front.name+": "+tape.name+" at "+route.path, func(t *testing.T) {
					direct := shop.play(t, front.direct, route.path, route.pass, tape)
					through := shop.play(t, front.gate.url, route.path, route.pass, tape)
					require.Len(t, direct.requests, 1)
					require.Len(t, through.requests, 1)
					d, g := direct.requests[0], through.requests[0]
					for _, name := range slices.Concat(addedToRequest, route.added) {
						require.Len(t, g.Header[name], 1, name)
					}
					d.Header = without(d.Header, takenOfRequest...)
					g.Header = without(g.Header, slices.Concat(addedToRequest, route.added)...)
					require.Equal(t, d, g)

					require.Equal(t, "whole", direct.answer.ended)
					require.Len(t, through.answer.heads, len(direct.answer.heads))
					for i, head := range direct.answer.heads {
						got := through.answer.heads[i]
						require.Len(t, got["date"], len(head["date"]))
						require.Equal(t, announced(head), announced(got))
						require.Equal(t, without(head, "date", "trailer"), without(got, "date", "trailer"))
					}
					require.Equal(t, string(direct.answer.body), string(through.answer.body))
					require.Equal(t, direct.answer.ended, through.answer.ended)
				})
			}
		}
	}
}

// TestTargetsOverHTTP2ArriveByteForByte: what the shop would see of a direct
// connection, it sees; what a server refuses there reaches no shop.
func TestTargetsOverHTTP2ArriveByteForByte(t *testing.T) {
	t.Parallel()
	shop := newH2Shop(t)
	front := h2Fronts(t, shop)[1]
	direct, through := dialH2(t, front.direct), dialH2(t, front.gate.url)
	see := func(c *h2Client, target string) (string, []requestSeen) {
		shop.does(func(_ http.ResponseWriter, r *http.Request) { shop.note(r) })
		got := c.end(c.begin(true, to("GET", target)...))
		return got.status(), shop.requests()
	}
	for _, target := range []string{
		"/a%2Fb", "/a//b", "//x", "///x/y", "//x?y=//z", "/a/%2e%2e/b", "/a/../b", "/./a", "/%E2%9C%93", "/a%20b+c", "/a:b@c", "/x/", "/x?", "/x??",
		"/x?a=1;b=2", "/x?q=%zz", "/x?a=1&a=2&b", "/x?url=https://e.test//y", "/a;v=1/b", "/x?q=\"<>|^`{}", "/a|b", "/a\"b", "/\xc3\xbc", "/a[1]",
		"/x?\xff", "/x?q=\\", "/*", "/%7Euser/~user", "/x?" + strings.Repeat("k=v&", 1500),
	} {
		status, seen := see(direct, target)
		require.Equal(t, "200", status, target)
		require.Equal(t, "GET "+target, seen[0].Line)
		status, seen = see(through, target)
		require.Equal(t, "200", status, target)
		require.Len(t, seen, 1)
		require.Equal(t, "GET "+target, seen[0].Line)
		require.Equal(t, "shop.test:8443", seen[0].Host)
	}
	for _, target := range []string{"/a%zz", "*", "", "checkout", "http:checkout", "http://inner/checkout", "/a\\b", "/a#b", "/a%00", "/\tx"} {
		status, seen := see(dialH2(t, front.gate.url), target)
		require.Contains(t, []string{"400", "405", ""}, status, target)
		require.Empty(t, seen, target)
	}
}

// TestHostThatIsJudgedOverHTTP2IsTheOneTheShopIsTold: a request can name a host in
// three places there.
func TestHostThatIsJudgedOverHTTP2IsTheOneTheShopIsTold(t *testing.T) {
	t.Parallel()
	shop := newH2Shop(t)
	g := startGate(t, writeConfig(t, plan{more: "h2c: true", rooms: "  - {name: sale, queue_all: true, total_active_users: 1, protect: [{paths: [/order]}], " +
		"exempt: [{hosts: [blog.test]}]}\n"}, shop.plain, ""))
	g.waitReady(t)
	shop.does(func(_ http.ResponseWriter, r *http.Request) { shop.note(r) })
	for _, tc := range []struct {
		authority, path, host string
		want                  []string // statuses; empty: the stream was reset
		told                  string   // which host the shop is told, when it is reached
	}{
		{"blog.test", "/order", "", []string{"200"}, "blog.test"},
		{"shop.test", "/order", "", []string{"429"}, ""},
		{"SHOP.test.:8443", "/order", "", []string{"429"}, ""},
		{"shop.test", "http://blog.test/order", "", []string{"400"}, ""},
		{"shop.test", "https://blog.test:443/order", "", []string{"400"}, ""},
		{"blog.test", "http://shop.test/order", "", []string{"400"}, ""},
		{"shop.test", "/order", "blog.test", []string{"429", "400", ""}, ""},
		{"blog.test", "/order", "shop.test", []string{"200", "400", ""}, "blog.test"},
		{"", "/order", "shop.test", []string{"429"}, ""},
		{"", "/order", "blog.test", []string{"200"}, "blog.test"},
		{"blog.test, shop.test", "/order", "", []string{"400", ""}, ""},
		{"blog.test@shop.test", "/order", "", []string{"400", ""}, ""},
	} {
		before := len(shop.requests())
		fields := []string{":method", "GET", ":scheme", "http", ":path", tc.path}
		if tc.authority != "" {
			fields = append(fields, ":authority", tc.authority)
		}
		if tc.host != "" {
			fields = append(fields, "host", tc.host)
		}
		c := dialH2(t, g.url)
		require.Contains(t, tc.want, c.end(c.begin(true, fields...)).status(), "%q", tc)
		c.close()
		for _, r := range shop.requests()[before:] {
			require.Equal(t, tc.told, r.Host, "%q", tc)
			require.Empty(t, r.Header["Host"], "%q", tc)
			require.Equal(t, "GET /order", r.Line)
		}
	}
}

// TestCookiesInCrumbsLoseOursAlone: clients of HTTP/2 send each cookie as a field
// of its own, ours among those of the shop.
func TestCookiesInCrumbsLoseOursAlone(t *testing.T) {
	t.Parallel()
	shop := newH2Shop(t)
	for _, front := range h2Fronts(t, shop) {
		shop.does(func(_ http.ResponseWriter, r *http.Request) { shop.note(r) })
		c := dialH2(t, front.gate.url)
		got := c.end(c.begin(true, to("GET", "/checkout", "cookie", "a=1", "cookie", "queuegate_ticket_checkout=x", "cookie", "__Host-queuegate_entry_checkout="+front.pass,
			"cookie", "b=2", "cookie", "queuegate_entry_checkout="+front.pass, "cookie", "a=3")...))
		require.Equal(t, "200", got.status(), "%s", got.body)
		require.Equal(t, []string{"a=1; b=2; a=3"}, shop.requests()[0].Header["Cookie"])
		require.NotEmpty(t, shop.requests()[0].Header.Get("X-Queuegate-Admission"))
		c.end(c.begin(true, to("GET", "/x", "cookie", "queuegate_ticket_checkout=x", "cookie", "queuegate_entry_checkout=y")...))
		require.NotContains(t, shop.requests()[1].Header, "Cookie")
	}
}

// TestWhoAsksBeforeSendingOverHTTP2 holds a body back until it is asked for.
func TestWhoAsksBeforeSendingOverHTTP2(t *testing.T) {
	t.Parallel()
	shop := newH2Shop(t)
	for _, front := range h2Fronts(t, shop) {
		for _, address := range []string{front.direct, front.gate.url} {
			shop.does(func(_ http.ResponseWriter, r *http.Request) { shop.note(r) })
			c := dialH2(t, address)
			id := c.begin(false, to("POST", "/x", "expect", "100-continue", "content-length", "5")...)
			c.await("100", func() bool { return len(c.streams[id].heads) > 0 })
			require.Equal(t, []string{"100"}, c.got(id).heads[0][":status"])
			c.data(id, true, "hello")
			got := c.end(id)
			require.Equal(t, "200", got.status())
			require.Len(t, got.heads, 2)
			require.Equal(t, "hello", shop.requests()[0].Body)
			require.Empty(t, shop.requests()[0].Header["Expect"])
		}
		// Who is refused is never asked for a body.
		shop.does(func(_ http.ResponseWriter, r *http.Request) { shop.note(r) })
		c := dialH2(t, front.gate.url)
		got := c.end(c.begin(false, to("POST", "/checkout", "expect", "100-continue", "content-length", "1000000000")...))
		require.Equal(t, "429", got.status())
		require.Len(t, got.heads, 1)
		require.Contains(t, string(got.body), `"urn:queuegate:problem:queued"`)
		require.Empty(t, shop.requests())
	}
}

// TestEventsOverHTTP2AreNotHeldBack: each arrives before the shop writes the next;
// and what the gate adds is no wait.
func TestEventsOverHTTP2AreNotHeldBack(t *testing.T) {
	t.Parallel()
	shop := newH2Shop(t)
	for _, front := range h2Fronts(t, shop) {
		for _, kind := range []string{"text/event-stream; charset=utf-8", "application/x-ndjson", "of a known length"} {
			written, next := make(chan time.Time, 1), make(chan struct{}, 1)
			shop.does(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", kind)
				if kind == "of a known length" {
					w.Header().Set("Content-Length", "180")
				}
				for range 20 {
					select {
					case written <- time.Now():
					case <-r.Context().Done():
						return
					}
					_, _ = io.WriteString(w, "data: 1\n\n")
					_ = http.NewResponseController(w).Flush()
					select {
					case <-next:
					case <-r.Context().Done():
						return
					}
				}
			})
			c := dialH2(t, front.gate.url)
			id, quickest := c.begin(true, to("GET", "/events")...), time.Hour
			for i := range 20 {
				at := soon(t, written, "the request, at the shop")
				c.await("an event", func() bool { return len(c.streams[id].body) == 9*(i+1) })
				quickest = min(quickest, time.Since(at))
				next <- struct{}{}
			}
			require.Equal(t, "whole", c.end(id).ended)
			require.Less(t, quickest, 200*time.Millisecond)
		}
	}
}

// TestStreamsBrokenOffOverHTTP2AreSeenToBe breaks requests and answers off half
// way, and goes on with the same connection.
func TestStreamsBrokenOffOverHTTP2AreSeenToBe(t *testing.T) {
	t.Parallel()
	shop := newH2Shop(t)
	for _, front := range h2Fronts(t, shop) {
		for _, address := range []string{front.direct, front.gate.url} {
			c := dialH2(t, address)
			fine := func(what string) {
				t.Helper()
				shop.does(func(w http.ResponseWriter, r *http.Request) { shop.note(r) })
				require.Equal(t, "200", c.end(c.begin(true, to("GET", "/fine")...)).status(), "after %s", what)
			}

			// The client, in the middle of its body: the shop never takes it for whole.
			for _, length := range [][]string{{"content-length", "10"}, nil} {
				begun := make(chan struct{})
				shop.does(func(_ http.ResponseWriter, r *http.Request) {
					close(begun)
					shop.note(r)
				})
				id := c.begin(false, to("POST", "/upload", length...)...)
				c.data(id, false, "hello")
				soon(t, begun, "the request, at the shop")
				c.reset(id)
				eventually(t, "the shop has seen the end", func() bool { return len(shop.requests()) == 1 })
				require.Contains(t, shop.requests()[0].Body, " broken off")
				fine("a client that broke its body off")
			}

			// The client, in the middle of the answer: the shop is told.
			told := make(chan struct{})
			shop.does(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.WriteString(w, "begun")
				_ = http.NewResponseController(w).Flush()
				<-r.Context().Done()
				close(told)
			})
			id := c.begin(true, to("GET", "/endless")...)
			c.await("the beginning", func() bool { return len(c.streams[id].body) > 0 })
			c.reset(id)
			soon(t, told, "the end, at the shop")
			fine("a client that had enough")

			// The shop, in the middle of its answer: it is no short answer.
			for _, length := range []string{"", "10"} {
				shop.does(func(w http.ResponseWriter, r *http.Request) {
					w.Header().Set("Content-Type", "x/y")
					if length != "" {
						w.Header().Set("Content-Length", length)
					}
					_, _ = io.WriteString(w, "hello")
					_ = http.NewResponseController(w).Flush()
					panic(http.ErrAbortHandler)
				})
				got := c.end(c.begin(true, to("GET", "/cut")...))
				require.Equal(t, "200", got.status(), "%s %s", got.ended, address)
				require.Equal(t, "hello", string(got.body))
				require.Equal(t, http2.ErrCodeInternal.String(), got.ended)
				fine("a shop that broke off")
			}
		}
	}
}

// TestHundredRequestsOfOneConnectionAreOneHundredAtTheShop: all are at the shop at
// once, and each gets the answer to its own.
func TestHundredRequestsOfOneConnectionAreOneHundredAtTheShop(t *testing.T) {
	t.Parallel()
	const streams = 100
	shop := newH2Shop(t)
	for _, front := range h2Fronts(t, shop) {
		var there atomic.Int64
		together := make(chan struct{})
		shop.does(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			if there.Add(1) == streams {
				close(together)
			}
			select {
			case <-together:
			case <-r.Context().Done():
				return
			}
			fmt.Fprintf(w, "%s %s %s", r.RequestURI, body, r.Header.Get("X-Queuegate-Room"))
		})
		c := dialH2(t, front.gate.url)
		ids := make([]uint32, streams)
		for i := range streams {
			fields := to("POST", fmt.Sprintf("/open/%d", i))
			if i%2 == 1 {
				fields = to("POST", fmt.Sprintf("/checkout/%d", i), "x-entry-token", front.pass)
			}
			ids[i] = c.begin(false, fields...)
		}
		for i := range slices.Backward(ids) { // bodies in another order than heads
			c.data(ids[i], true, fmt.Sprintf("body %d", i))
		}
		for i, id := range ids {
			want := fmt.Sprintf("/open/%d body %d ", i, i)
			if i%2 == 1 {
				want = fmt.Sprintf("/checkout/%d body %d checkout", i, i)
			}
			require.Equal(t, want, string(c.end(id).body))
		}
	}
}

// TestConnectAndWebSocketsOverHTTP2AreNotOffered: a tunnel in a stream would be a
// way on which nobody judges.
func TestConnectAndWebSocketsOverHTTP2AreNotOffered(t *testing.T) {
	t.Parallel()
	shop := newH2Shop(t)
	for _, front := range h2Fronts(t, shop) {
		shop.does(func(_ http.ResponseWriter, r *http.Request) { shop.note(r) })
		c := dialH2(t, front.gate.url)
		c.mu.Lock()
		require.Zero(t, c.settings[http2.SettingEnableConnectProtocol])
		c.mu.Unlock()
		for name, fields := range map[string][]string{
			"a WebSocket in a stream":            append([]string{":method", "CONNECT", ":protocol", "websocket", ":scheme", "https", ":authority", "shop.test", ":path", "/x"}, "sec-websocket-version", "13"),
			"a WebSocket in a stream, to a room": {":method", "CONNECT", ":protocol", "websocket", ":scheme", "https", ":authority", "shop.test", ":path", "/checkout", "x-entry-token", front.pass},
			"a tunnel":                           {":method", "CONNECT", ":authority", "127.0.0.1:1"},
			"an upgrade":                         to("GET", "/x", "connection", "upgrade", "upgrade", "websocket"),
			"another coding":                     to("POST", "/x", "transfer-encoding", "chunked"),
		} {
			c := dialH2(t, front.gate.url)
			id := c.begin(false, fields...)
			c.data(id, true, "GET /checkout HTTP/1.1\r\nHost: shop.test\r\n\r\n")
			got := c.end(id)
			require.Contains(t, []string{"", "400", "405"}, got.status(), "%s: %s", name, got.body)
			require.Empty(t, shop.requests(), name)
		}
	}
}

// TestExpectationIsTheShopsToAnswer: the shop may refuse a body by the head alone,
// and no byte of it is asked for before the shop does.
func TestExpectationIsTheShopsToAnswer(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	// The shop says its first word only when the client has listened in vain.
	word := make(chan string, 2) // more is never said before it was heard
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = conn.Close() }()
				r, err := http.ReadRequest(bufio.NewReader(conn))
				if err != nil || r.Header.Get("Expect") != "100-continue" {
					return
				}
				hear := func() (text string) {
					select {
					case text = <-word:
					case <-t.Context().Done():
					}
					return text
				}
				_, _ = io.WriteString(conn, hear())
				if hear() != "" {
					body, _ := io.ReadAll(r.Body)
					fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
				}
			}()
		}
	}()
	shop := listener.Addr().String()
	g := startGate(t, writeConfig(t, plan{rooms: room("total_active_users: 1")}, "http://"+shop, ""))
	for _, address := range []string{shop, strings.TrimPrefix(g.url, "http://")} {
		ask := func() (net.Conn, *bufio.Reader) {
			conn, err := net.Dial("tcp", address)
			require.NoError(t, err)
			t.Cleanup(func() { _ = conn.Close() })
			require.NoError(t, conn.SetDeadline(time.Now().Add(patience)))
			_, err = io.WriteString(conn, "PUT /x HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n")
			require.NoError(t, err)
			return conn, bufio.NewReader(conn)
		}
		conn, r := ask()
		word <- "HTTP/1.1 100 Continue\r\n\r\n"
		resp, err := http.ReadResponse(r, nil)
		require.NoError(t, err)
		require.Equal(t, http.StatusContinue, resp.StatusCode)
		_, err = io.WriteString(conn, "hello")
		require.NoError(t, err)
		word <- "go on"
		code, text, _, err := readOne(r)
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, code, "exactly one 100 before")
		require.Equal(t, "hello", text)

		_, r = ask()
		word <- "HTTP/1.1 413 Too Large\r\nConnection: close\r\nContent-Length: 3\r\n\r\nbig"
		code, text, _, err = readOne(r)
		require.NoError(t, err)
		require.Equal(t, http.StatusRequestEntityTooLarge, code, "no 100 before")
		require.Equal(t, "big", text)
		word <- ""
	}
}

// TestBodiesRefusedOverHTTP2TakeNoRoomOnTheConnection: a body that nobody read
// counts against the window that all streams share.
func TestBodiesRefusedOverHTTP2TakeNoRoomOnTheConnection(t *testing.T) {
	t.Parallel()
	shop := newH2Shop(t)
	front := h2Fronts(t, shop)[1]
	shop.does(func(_ http.ResponseWriter, r *http.Request) { shop.note(r) })
	c := dialH2(t, front.gate.url)
	body := mebibytes(3)
	for range 10 {
		id := c.begin(false, to("POST", "/checkout")...)
		c.data(id, true, body)
		got := c.end(id)
		require.Equal(t, "429", got.status())
		require.Contains(t, string(got.body), `"urn:queuegate:problem:queued"`)
		require.Contains(t, []string{"whole", http2.ErrCodeNo.String()}, got.ended)
	}
	require.Empty(t, shop.requests())
	id := c.begin(false, to("POST", "/checkout", "x-entry-token", front.pass)...)
	c.data(id, true, body)
	require.Equal(t, "200", c.end(id).status())
	require.Equal(t, body, shop.requests()[0].Body)
}
