package proxy

import (
	"errors"
	"html"
	"net/http"
	"net/url"
	"strings"
)

// front is a front proxy that asks whether a request may pass and sends it to
// the shop itself.
type front struct {
	// divert is the status that says no in a way the proxy hands on: 401 for nginx,
	// to which anything but 401 and 403 is a fault of ours, 429 for the others,
	// which pass the answer to the client. 0: nobody asks.
	divert int
}

// asks reports whether there is a front proxy and not a client.
func (f front) asks() bool { return f.divert != 0 }

// authName follows the prefix in the address at which front proxies ask. No room
// may have this name.
const authName = "auth"

// told are the headers in which a front proxy tells of the original request, and
// what its answer is when the request may not pass. Each header of a pair stands
// there once, and a request with headers of both pairs is nobody's: a client has
// written one of them.
var told = []struct {
	uri, method, host string // an empty host: the Host of the question
	divert            int
}{
	{"X-Original-Uri", "X-Original-Method", "", http.StatusUnauthorized},
	{"X-Forwarded-Uri", "X-Forwarded-Method", "X-Forwarded-Host", http.StatusTooManyRequests},
}

var (
	errNotTold   = errors.New("no original request is told: send X-Original-URI and X-Original-Method, or X-Forwarded-Uri, -Method and -Host, or put its target behind the address")
	errToldTwice = errors.New("the original request is told in more than one way")
	errToldHalf  = errors.New("a header that tells of the original request is missing, empty or stands there more than once")
)

// cutAuth returns what follows the address at which front proxies ask: nothing,
// a query that means nothing, or the target of the original request.
func (g *Gate) cutAuth(uri string) (rest string, ok bool) {
	rest, ok = strings.CutPrefix(uri, g.prefix+"/"+authName)
	return rest, ok && (rest == "" || rest[0] == '/' || rest[0] == '?')
}

// serveAuth judges a request that a front proxy holds. It verifies, claims and
// exchanges passes as the gate does on the way to the shop, and joins nobody: a
// proxy asks for every request, also for those nobody waits for. Whoever may not
// pass is led to the room's page, which joins.
func (g *Gate) serveAuth(x *exchange, rest string) {
	if !g.clients.PeerTrusted(x.r) {
		x.decide(Refused, ReasonUntrusted)
		x.problem(newProblem(http.StatusForbidden, "untrusted-proxy", "Only a proxy named in trusted_proxies may ask here."))
		return
	}
	original, by, err := originalOf(x.r, rest)
	if err != nil {
		x.decide(Refused, ReasonForwarded)
		x.problem(newProblem(http.StatusForbidden, "forwarded", "The original request cannot be told: "+err.Error()+"."))
		return
	}
	x.r, x.front, x.caller = original, by, callerOf(original)
	j := g.judge(x.r, x.client)
	if j.next == ownAddress {
		j = j.refused(ReasonTarget, http.StatusForbidden, "the gate's own addresses are not the shop's: send them to the gate without asking")
	}
	x.follow(j)
}

// originalOf returns the request that a front proxy tells of. Envoy asks with the
// method and host of the original request and puts its target behind the address;
// the others tell all of it in headers.
func originalOf(r *http.Request, rest string) (*http.Request, front, error) {
	out := r.WithContext(r.Context())
	out.Header = r.Header.Clone()
	by := front{}
	if strings.HasPrefix(rest, "/") {
		out.RequestURI, by.divert = rest, http.StatusTooManyRequests
	}
	for _, names := range told {
		if len(r.Header[names.uri])+len(r.Header[names.method]) == 0 {
			continue
		}
		if by.asks() {
			return nil, front{}, errToldTwice
		}
		by.divert = names.divert
		for name, field := range map[string]*string{names.uri: &out.RequestURI, names.method: &out.Method, names.host: &out.Host} {
			if name == "" {
				continue
			}
			values := r.Header[name]
			if len(values) != 1 || values[0] == "" {
				return nil, front{}, errToldHalf
			}
			*field = values[0]
			delete(out.Header, name)
		}
	}
	if !by.asks() {
		return nil, front{}, errNotTold
	}
	return out, by, nil
}

// allow tells the front proxy that the request may pass, and what to tell the
// shop and the client with it.
func (x *exchange) allow(reason Reason) {
	x.decide(Allowed, reason)
	x.introduce(x.w.Header())
	x.text(http.StatusOK, "")
}

// withoutPass answers the front proxy about a request without a good pass. While
// Redis is away a room that is set to open lets it pass; nothing counts there how
// many do.
func (x *exchange) withoutPass() {
	away := x.redisErr != nil || !x.room.Line.Up()
	switch {
	case x.caller == passive:
		x.decide(Queued, ReasonNoPlace)
	case away && x.room.OnRedisError == OnRedisErrorOpen:
		x.allow(ReasonFailOpen)
		return
	case away:
		x.decide(Queued, ReasonDegraded)
	default:
		x.decide(Queued, ReasonNoPass)
	}
	x.divert()
}

// divert tells the front proxy that the request may not pass, and where the line
// is. The body is for proxies that hand it to the client.
func (x *exchange) divert() {
	h := x.w.Header()
	retryAfter(h, jitter(defaultPoll))
	h.Set(headerRoom, x.room.Name)
	h.Set(headerPage, x.pageAddress())
	switch x.caller {
	case navigation:
		h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
		x.send(x.front.divert, "text/html; charset=utf-8", []byte(x.leadIn()))
	case socket:
		x.text(x.front.divert, "Not admitted: wait in line first.\n")
	default:
		p := newProblem(x.front.divert, "queued", "This request was not passed on: join the line at "+
			x.g.prefix+"/"+x.room.Name+"/join, wait for your turn and send it again.")
		p.Room = x.room.Name
		x.problem(p)
	}
}

// pageAddress is the page to which a diverted request leads: with the way back,
// and for a form with the word that it was not accepted.
func (x *exchange) pageAddress() string {
	query := url.Values{}
	if back := x.safeBack(x.here()); back != "" {
		query.Set("return", back)
	}
	if x.isForm() {
		query.Set("sent", "1")
	}
	address := x.g.prefix + "/" + x.room.Name
	if len(query) > 0 {
		address += "?" + query.Encode()
	}
	return address
}

// leadIn is a page that opens the queue page by itself, for front proxies that
// hand our answer to the client and cannot open it there.
func (x *exchange) leadIn() string {
	to := html.EscapeString(x.pageAddress())
	return `<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="robots" content="noindex">` +
		`<meta http-equiv="refresh" content="0;url=` + to + `"><title>You are in line</title></head>` +
		`<body><p><a href="` + to + `">Go to the line</a></p></body></html>` + "\n"
}
