package proxy

import (
	"io"
	"net/http"
	"slices"
	"strings"
)

// The headers in which the gate and its visitors or the shop speak.
const (
	headerEntryToken  = "X-Entry-Token"
	headerQueueTicket = "X-Queue-Ticket"
	headerRoom        = "X-Queuegate-Room"
	headerVisitor     = "X-Queuegate-Visitor"
	headerAdmission   = "X-Queuegate-Admission"
	headerPage        = "X-Queuegate-Page" // to front proxies: where the line is
	ourHeaders        = "x-queuegate-"     // folded beginning of all that are ours alone
)

// misleading are headers, folded, by which some frameworks take another target
// or method than the one on the request line, that is, than the one the gate
// judged. All begin with x-.
var misleading = []string{
	"x-original-url", "x-original-uri", "x-original-path", "x-original-method", "x-original-host",
	"x-rewrite-url", "x-rewrite-uri", "x-rewrite-path", "x-envoy-original-path",
	"x-override-url", "x-request-uri",
	"x-forwarded-uri", "x-forwarded-url", "x-forwarded-prefix", "x-forwarded-path", "x-forwarded-method",
	"x-http-method-override", "x-http-method", "x-method-override", "x-method",
}

// framing are headers, folded, that say where a message ends and how its
// connection goes on. Go reads them under their own names only; a shop that also
// takes Transfer_Encoding would see the message end elsewhere.
var framing = []string{
	"transfer-encoding", "content-length", "connection", "host", "te", "trailer", "upgrade", "expect",
	"keep-alive", "proxy-connection",
}

// headerH2C belongs to an offer of h2c, which is never passed on.
const headerH2C = "http2-settings"

// fold returns name as lax servers compare it: without case, and with - for
// whatever is no letter and no digit. CGI and its heirs cannot tell
// X_Entry_Token or X.Entry.Token from X-Entry-Token.
func fold(name string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', '0' <= r && r <= '9':
			return r
		case 'A' <= r && r <= 'Z':
			return r + 'a' - 'A'
		}
		return '-'
	}, name)
}

// folded is what fold makes of the first characters of a name: all there are of those
// that matter here. It lies on the stack: fold allocates for every name with a capital.
type folded struct {
	text [32]byte
	n    int
	long bool // the name goes on
}

func foldStart(name string) (f folded) {
	for _, r := range name {
		if f.n == len(f.text) {
			f.long = true
			break
		}
		c := byte('-')
		switch {
		case 'a' <= r && r <= 'z', '0' <= r && r <= '9':
			c = byte(r)
		case 'A' <= r && r <= 'Z':
			c = byte(r) + 'a' - 'A'
		}
		f.text[f.n] = c
		f.n++
	}
	return f
}

// is reports whether the folded name is want.
func (f *folded) is(want string) bool { return !f.long && string(f.text[:f.n]) == want }

// begins reports whether the folded name begins with want.
func (f *folded) begins(want string) bool {
	return f.n >= len(want) && string(f.text[:len(want)]) == want
}

// among reports whether the folded name is one of the list.
func (f *folded) among(list []string) bool {
	return slices.ContainsFunc(list, f.is)
}

// odd reports whether name is spelled with more than letters, digits and -.
func odd(name string) bool {
	for i := range len(name) {
		if c := name[i]; c != '-' && (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') {
			return true
		}
	}
	return false
}

// scrub removes from what goes to the shop every header that only the gate may
// write or that claims another target or method, in every spelling. With
// believe the peer's X-Forwarded-* and X-Real-IP stay, else nothing is left of
// them: the shop cannot tell who wrote them.
func scrub(h http.Header, believe bool) {
	for name := range h {
		if gone(name, believe) {
			delete(h, name)
		}
	}
}

// gone reports whether scrub removes the header name. Few begin as those that it
// looks for, and folding takes each letter in hand.
func gone(name string, believe bool) bool {
	switch initial(name) {
	case 'x', 'f', headerH2C[0]:
	default:
		return odd(name) && slices.Contains(framing, fold(name))
	}
	f := foldStart(name)
	switch {
	case f.begins("x-"): // most of what is looked for
		switch {
		case f.begins(ourHeaders), f.is("x-entry-token"), f.is("x-queue-ticket"), f.among(misleading):
			return true
		case f.begins("x-forwarded-"), f.is("x-real-ip"):
			return !believe || odd(name)
		}
		return false
	case f.is(headerH2C):
		return true
	case f.is("forwarded"):
		return !believe || odd(name)
	default:
		return odd(name) && f.among(framing)
	}
}

// initial is the first letter of a name as fold writes it; 0 for none.
func initial(name string) byte {
	if name == "" {
		return 0
	}
	return name[0] | ('a' - 'A') // what is no letter does not become one
}

// forward writes X-Forwarded-For, -Proto and -Host into out. From a trusted
// peer the chain is kept and the peer appended, and what it says of scheme and
// host stands. From anybody else the chain begins with the peer, and scheme and
// host are those of the connection.
func (l *lines) forward(out http.Header, in *http.Request, peer, proto string, believe bool) {
	chain := peer
	if before := strings.Join(in.Header["X-Forwarded-For"], ", "); believe && before != "" {
		chain = before
		if peer != "" {
			chain += ", " + peer
		}
	}
	if chain == "" {
		out.Del("X-Forwarded-For")
	} else {
		l.set(out, "X-Forwarded-For", chain)
	}
	l.set(out, "X-Forwarded-Proto", proto)
	if host := in.Header.Get("X-Forwarded-Host"); believe && host != "" {
		l.set(out, "X-Forwarded-Host", host)
	} else {
		l.set(out, "X-Forwarded-Host", in.Host)
	}
}

// scrubAnswer removes from the shop's answer what it says to the gate and what
// only the gate may say to a visitor.
func scrubAnswer(h http.Header) {
	dropSpoken(h)
	if lines, ok := h["Set-Cookie"]; ok {
		if kept := dropOurs(lines); len(kept) > 0 {
			h["Set-Cookie"] = kept
		} else {
			delete(h, "Set-Cookie")
		}
	}
}

// dropSpoken removes the headers in which the shop speaks to the gate and the
// gate to a visitor.
func dropSpoken(h http.Header) {
	for name := range h {
		if initial(name) != ourHeaders[0] {
			continue
		}
		if f := foldStart(name); f.begins(ourHeaders) || f.is("x-entry-token") || f.is("x-queue-ticket") {
			delete(h, name)
		}
	}
}

// scrubTrailers does for the trailers of resp what scrubAnswer does for its
// headers. Those announced are dropped at once; all arrive only with the end of
// the body, so they are dropped again when the body is closed, which the reverse
// proxy does before it sends them on.
func scrubTrailers(resp *http.Response) {
	dropTrailers(resp)
	if resp.ContentLength < 0 && resp.StatusCode != http.StatusSwitchingProtocols { // a body of known length has none, and there it is the connection
		resp.Body = &trailedBody{ReadCloser: resp.Body, resp: resp}
	}
}

type trailedBody struct {
	io.ReadCloser
	resp *http.Response
}

// Close closes the body and drops the trailers that are ours.
func (b *trailedBody) Close() error {
	err := b.ReadCloser.Close()
	dropTrailers(b.resp)
	return err
}

// dropTrailers also drops Set-Cookie, which no client takes from a trailer.
func dropTrailers(resp *http.Response) {
	dropSpoken(resp.Trailer)
	resp.Trailer.Del("Set-Cookie")
}
