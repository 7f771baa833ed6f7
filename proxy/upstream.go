package proxy

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"mime"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// statusClientGone is what the log shows when the client left before there was
// an answer. It is never sent.
const statusClientGone = 499

// patience is long enough for the answer that says why, also on a slow line.
const patience = 5 * time.Second

// flushAfter is how long a part of a body of known length may wait for more of it. Events
// and bodies of unknown length never wait: the reverse proxy sees to that. Nor does the
// end of a body, so an ordinary answer goes out in one piece; with no wait at all its head
// would be sent alone, by a goroutine of its own.
const flushAfter = 5 * time.Millisecond

// Why a request is broken off that is at the shop.
var (
	errMaxRequest   = errors.New("proxy: the request ran longer than max_request")
	errPassEnded    = errors.New("proxy: the pass of this stream has ended")
	errHalfClosed   = errors.New("proxy: one side has closed its half of the tunnel and the other does not follow")
	errStopping     = errors.New("proxy: the gate is stopping")
	errManyInformed = errors.New("proxy: the shop sent more 1xx answers than are passed on")
)

// shop sends requests to the shop.
type shop struct {
	proxy      *httputil.ReverseProxy // for what a wire does not carry
	wired      *httputil.ReverseProxy // the same, over wires; nil when there are none
	transport  *http.Transport
	wires      *wires
	scheme     string
	host       string
	maxRequest time.Duration
	buffers    *buffers
	refusal    *refusal     // whether it takes connections
	gates      atomic.Int32 // that use it, see Options.After
	log        *slog.Logger
	misnamed   sync.Once     // done when the shop has set a cookie under a name of ours
	halfClosed time.Duration // how long one half of a tunnel outlives the other
	patience   time.Duration // how long a client may take to let go of a request that was broken off
}

func newShop(u Upstream, log *slog.Logger) *shop {
	scheme, host := u.address()
	s := &shop{scheme: scheme, host: host, maxRequest: u.MaxRequest, halfClosed: halfClosed, patience: patience, buffers: newBuffers(), log: log}
	s.refusal = &refusal{dial: u.dialer(log), log: log}
	s.transport = newTransport(u, s.refusal.DialContext)
	s.proxy = s.reverseProxy(s.transport)
	s.proxy.FlushInterval = flushAfter
	if addr, ok := u.wired(); ok {
		s.wires = newWires(addr, s.refusal.DialContext, u.ResponseTimeout)
		s.wired = s.reverseProxy(s.wires) // wires flush by themselves
	}
	return s
}

func (s *shop) reverseProxy(over http.RoundTripper) *httputil.ReverseProxy {
	return &httputil.ReverseProxy{
		Rewrite:        s.rewrite,
		Transport:      over,
		BufferPool:     s.buffers,
		ModifyResponse: s.answer,
		ErrorHandler:   s.fail,
		ErrorLog:       serverLog(s.log, slog.LevelDebug),
	}
}

// way returns what passes r on.
func (s *shop) way(r *http.Request) *httputil.ReverseProxy {
	if _, upgrade := r.Header["Upgrade"]; s.wired == nil || upgrade || r.ContentLength != 0 {
		return s.proxy
	}
	return s.wired
}

// close lets go of the connections that no request uses.
func (s *shop) close() {
	s.transport.CloseIdleConnections()
	if s.wires != nil {
		s.wires.close()
	}
}

// serve sends the request of x to the shop and its answer to the client. It
// panics with http.ErrAbortHandler when the answer breaks off half way, so that
// the client sees a broken answer and not a short one.
func (s *shop) serve(x *exchange) {
	base := x.r.Context()
	if x.order {
		// The shop may be carrying it out. Were it broken off with its client, the
		// pass would be good for another order, and who leaves in time for any number.
		base = context.WithoutCancel(base)
	}
	t := &trip{x: x, patience: s.patience, control: http.NewResponseController(x.w)}
	t.Context, t.cancel = context.WithCancelCause(base)
	defer t.cancel(nil)
	t.timer = time.AfterFunc(s.maxRequest, t.tooLong)
	defer t.timer.Stop()
	defer func() { t.ended(t.cause()) }()
	x.record.trip = t
	t.slot.keep(t)
	defer t.slot.stop()
	defer t.home()
	defer context.AfterFunc(base, t.left)()
	r := withoutUpgrade(x.r).WithContext(t)
	if r.Body != nil && r.Body != http.NoBody {
		t.body = &watchedBody{ReadCloser: r.Body}
		r.Body = t.body
	}
	w := x.w
	if isWebSocket(r) {
		w = s.tunnel(t)
	}
	x.record.shop.Asked, x.record.asked = true, x.g.now()
	whole := false
	defer func() {
		if !whole && x.record.status != 0 {
			// What came of the answer is sent: clients repeat a request by themselves when
			// its connection ends before any of its answer, an order as well.
			t.flush()
		}
	}()
	s.way(r).ServeHTTP(w, r)
	whole = true
}

// rewrite makes the outgoing request. The reverse proxy has removed hop-by-hop
// headers, and those named in Connection, before; so a client cannot have ours
// dropped.
func (s *shop) rewrite(pr *httputil.ProxyRequest) {
	x := tripOf(pr.In.Context()).x
	out := pr.Out
	out.URL = s.target(x.target.Raw)
	out.Host = pr.In.Host

	believe := x.g.clients.PeerTrusted(pr.In)
	if believe { // the reverse proxy took them away; the peer's word stands
		for name, values := range pr.In.Header {
			if f := foldStart(name); f.begins("x-forwarded-") {
				out.Header[name] = values
			}
		}
	}
	scrub(out.Header, believe)
	scrub(out.Trailer, believe)
	if t := tripOf(pr.In.Context()); t.body != nil {
		t.body.arriving, t.body.announced = x.r.Trailer, out.Trailer
	}
	x.lines.forward(out.Header, pr.In, peerAddress(pr.In), x.proto, believe)
	if lines := stripOurs(out.Header["Cookie"]); len(lines) > 0 {
		out.Header["Cookie"] = lines
	} else {
		delete(out.Header, "Cookie")
	}
	// Under this name the transport would send the request a second time after
	// the shop closed the connection, a POST as well. The spelling hides it from
	// the transport; to the shop it is the same header.
	for _, name := range []string{"Idempotency-Key", "X-Idempotency-Key"} {
		if values, ok := out.Header[name]; ok {
			delete(out.Header, name)
			out.Header[strings.ToLower(name)] = values
		}
	}
	x.introduce(out.Header)
}

// target returns a URL that goes over the wire as raw, byte for byte. Opaque is
// written as it is. The exception is a target that begins with two slashes,
// before which net/http writes the scheme: that goes through the path, which
// is kept as it came as long as it is spelled as URLs are (see forwardable).
func (s *shop) target(raw string) *url.URL {
	path, query, hasQuery := strings.Cut(raw, "?")
	u := &url.URL{Scheme: s.scheme, Host: s.host, RawQuery: query, ForceQuery: hasQuery}
	if !strings.HasPrefix(path, "//") {
		u.Opaque = path
		return u
	}
	u.RawPath = path
	u.Path, _ = url.PathUnescape(path)
	return u
}

// forwardable reports whether raw can be sent to the shop as it is. It is false
// only for a path that begins with two slashes and holds bytes that a URL may
// not hold unescaped.
func (s *shop) forwardable(raw string) bool {
	return !strings.HasPrefix(raw, "//") || s.target(raw).RequestURI() == raw
}

// answer works on the shop's answer before the client sees any of it.
func (s *shop) answer(resp *http.Response) error {
	t := tripOf(resp.Request.Context())
	t.x.record.shop.Status, t.x.record.shop.Took = resp.StatusCode, t.x.g.now().Sub(t.x.record.asked)
	if setsOurs(resp.Header) {
		s.misnamed.Do(func() {
			s.log.WarnContext(resp.Request.Context(), "the shop sets a cookie whose name begins like the gate's own; such cookies are dropped",
				"names", ticketCookie+"* and "+entryCookie+"*", "path", loggedPath(t.x.r.RequestURI))
		})
	}
	said := wordOf(resp.Header)
	scrubAnswer(resp.Header)
	scrubTrailers(resp)
	if _, typed := resp.Header["Content-Type"]; !typed {
		t.x.w.Header()["Content-Type"] = nil // else the server guesses one
	}
	switch {
	case resp.StatusCode == http.StatusSwitchingProtocols: // the server knows of the connection
		t.becameStream()
	case isEventStream(resp.Header):
		t.becameStream()
		t.over = streams(t.x.r.Context(), func() { t.giveUp(errStopping) })
	}
	t.slot.decided()
	t.x.doubleConcludes(resp.StatusCode, said)
	if t.x.concludes(resp.StatusCode, said) {
		t.slot.stop()
	}
	t.x.handOut(resp.Header)
	return nil
}

// fail answers when there is no answer of the shop. Nothing of the pass is
// lost.
func (s *shop) fail(_ http.ResponseWriter, r *http.Request, err error) {
	t := tripOf(r.Context())
	x := t.x
	x.record.cause = err
	if why := context.Cause(r.Context()); why != nil {
		x.record.cause = why
	}
	x.bodyRead = true // as far as it will be: the transport had it
	t.slot.decided()
	x.letGo()
	switch {
	case x.r.Context().Err() != nil:
		x.record.status = statusClientGone
		x.record.upstream = "client_gone"
		return
	case t.body != nil && t.body.failed.Load():
		x.record.upstream = "request_body"
		x.endConnection()
		x.problem(newProblem(http.StatusBadRequest, "bad-request", "The body of the request could not be read to its end."))
		return
	case isTimeout(r.Context(), err):
		x.record.upstream = string(ShopTimeout)
		x.shopDown(http.StatusGatewayTimeout)
	default:
		x.record.upstream = string(ShopUnreachable)
		x.shopDown(http.StatusBadGateway)
	}
}

// isTimeout tells a shop that is late from one that is not there.
func isTimeout(ctx context.Context, err error) bool {
	if errors.Is(context.Cause(ctx), errMaxRequest) || errors.Is(err, context.DeadlineExceeded) {
		return true
	}
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

// isWebSocket reports whether r asks for an upgrade to WebSocket and nothing
// else, in the form that the handshake has: a GET of HTTP/1.1 without a body.
func isWebSocket(r *http.Request) bool {
	lines := r.Header["Upgrade"]
	return len(lines) == 1 && strings.EqualFold(strings.TrimSpace(lines[0]), "websocket") &&
		r.Method == http.MethodGet && r.ProtoMajor == 1 && r.ProtoMinor == 1 &&
		r.ContentLength == 0 && len(r.TransferEncoding) == 0
}

// withoutUpgrade returns r as a server reads it that does not switch protocols:
// an offer of anything but WebSocket is not taken up (RFC 9110 section 7.8), for
// on a connection that speaks h2c requests would pass that the gate never sees.
// Clients that offer h2c with their first request, as Java's does, go on in
// HTTP/1.1.
func withoutUpgrade(r *http.Request) *http.Request {
	if _, offers := r.Header["Upgrade"]; !offers || isWebSocket(r) {
		return r
	}
	plain := *r
	plain.Header = r.Header.Clone()
	plain.Header.Del("Upgrade")
	return &plain
}

func isEventStream(h http.Header) bool {
	said := h.Get("Content-Type")
	if !strings.Contains(strings.ToLower(said), "text/event-stream") { // what is parsed is allocated
		return false
	}
	mediaType, _, _ := mime.ParseMediaType(said)
	return mediaType == "text/event-stream"
}

// peerAddress is the address of whoever holds the other end of the connection,
// empty for a Unix socket.
func peerAddress(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return ""
	}
	return host
}

// watchedBody remembers that reading from the client failed, which is the
// client's doing and not the shop's. With the end of the body it hands the
// client's trailers on, which the reverse proxy only announces, and none that was
// not announced: those the gate has not seen before.
type watchedBody struct {
	io.ReadCloser
	failed              atomic.Bool // the transport reads in a goroutine of its own
	arriving, announced http.Header
}

func (b *watchedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	switch {
	case err == nil:
	case errors.Is(err, io.EOF):
		for name := range b.announced {
			b.announced[name] = b.arriving[name]
		}
	default:
		b.failed.Store(true)
	}
	return n, err
}
