package proxy

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	// readHeaderTimeout bounds how long a client may take to send the head of a
	// request; slow senders of heads hold a connection and nothing else.
	readHeaderTimeout = 10 * time.Second
	// idleTimeout is longer than the 60 to 75 seconds for which balancers keep
	// their side open, so that they and not we close an idle connection: closing
	// it here could meet a request that is already on its way.
	idleTimeout = 120 * time.Second
	// maxHeaderBytes is room for the shop's cookies and ours.
	maxHeaderBytes = 32 << 10
	// maxStreams bounds the requests that one connection of HTTP/2 runs at once. A
	// page asks for about a hundred things.
	maxStreams = 128
	// pingAfter and pingTimeout find out that the other end of a silent connection
	// of HTTP/2 is gone.
	pingAfter, pingTimeout = 30 * time.Second, 15 * time.Second
	// afterCut is how long a request whose connection was cut gets to give back
	// what it holds and to write its log line.
	afterCut = time.Second
)

var (
	// ErrNotListening is returned by Serve when Listen was not called or failed.
	ErrNotListening = errors.New("proxy: not listening")
	// ErrCut is returned by Serve when requests were still running at the end of
	// the grace time and their connections were closed.
	ErrCut = errors.New("proxy: requests were still running at the end of the grace time and were cut off")
)

// ServerOptions are what NewServer needs.
type ServerOptions struct {
	// Listen is the address of the public listener, for instance ":8080"; port
	// 0 takes a free one. Public answers there. Both are required.
	Listen string
	Public http.Handler
	// Certificate makes the public listener speak TLS, with HTTP/2 or HTTP/1.1 as
	// the client likes; nil means no TLS.
	Certificate *Certificate
	// H2C takes HTTP/2 without TLS from clients that begin with it, beside
	// HTTP/1.1. Nobody is upgraded to it. It excludes Certificate.
	H2C bool
	// AdminListen and Admin are the same for operators. Without an address there
	// is no admin listener.
	AdminListen string
	Admin       http.Handler
	// DrainDelay is how long everything is still served after the end was asked
	// for, while readiness already fails, so that balancers stop sending first.
	DrainDelay time.Duration
	// Grace is how long requests in flight may go on after that. 0 cuts them off.
	Grace time.Duration
	// Stopping, when not nil, is called once no new connections are taken: whatever
	// would never end by itself should. The end waits for it.
	Stopping func()
	// Log gets what the servers have to say; nil discards it.
	Log *slog.Logger
}

func (o ServerOptions) validate() error {
	var errs []error
	if o.Listen == "" {
		errs = append(errs, errors.New("proxy: listen: must not be empty; set it to an address such as \":8080\""))
	}
	if o.Public == nil {
		errs = append(errs, errors.New("proxy: server: Public must not be nil"))
	}
	if o.AdminListen != "" && o.Admin == nil {
		errs = append(errs, errors.New("proxy: server: Admin must not be nil when AdminListen is set"))
	}
	if o.H2C && o.Certificate != nil {
		errs = append(errs, errors.New("proxy: h2c: must not be set with tls; HTTP/2 comes with TLS"))
	}
	if o.DrainDelay < 0 {
		errs = append(errs, fmt.Errorf("proxy: shutdown.drain_delay: must not be negative (is %v)", o.DrainDelay))
	}
	if o.Grace < 0 {
		errs = append(errs, fmt.Errorf("proxy: shutdown.grace: must not be negative (is %v)", o.Grace))
	}
	return errors.Join(errs...)
}

// Server is the public and the admin listener with one common end.
type Server struct {
	opts     ServerOptions
	public   *http.Server
	admin    *http.Server // nil without an admin listener
	answers  *replaceable // what answers on the public listener,
	tells    *replaceable // and on the admin one
	publicLn net.Listener // nil before Listen
	adminLn  net.Listener
	draining atomic.Bool
	running  flights
	cut      context.CancelFunc // ends the context of every request
}

// NewServer returns a server that does not listen yet.
func NewServer(o ServerOptions) (*Server, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	s := &Server{opts: o}
	base, cut := context.WithCancel(context.WithValue(context.Background(), flightsKey{}, &s.running))
	s.cut = cut
	s.answers = newReplaceable(o.Public)
	s.public = s.httpServer(base, s.counted(s.answers), "public")
	s.public.Protocols.SetUnencryptedHTTP2(o.H2C)
	if o.Certificate != nil {
		s.public.Protocols.SetHTTP2(true)
		s.public.TLSConfig = o.Certificate.config()
	}
	if o.AdminListen != "" {
		s.tells = newReplaceable(o.Admin)
		s.admin = s.httpServer(base, s.tells, "admin")
	}
	return s, nil
}

// httpServer has no WriteTimeout: streams and long downloads are ordinary
// answers, and a request of the shop has its own end (upstream.max_request).
func (s *Server) httpServer(base context.Context, h http.Handler, name string) *http.Server {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &http.Server{
		Handler:   h,
		Protocols: protocols,
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: maxStreams, SendPingTimeout: pingAfter, PingTimeout: pingTimeout,
			// Who reads nothing answers no ping either, but is not asked for one while sending.
			WriteByteTimeout: pingAfter + pingTimeout,
		},
		ReadHeaderTimeout: readHeaderTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		// OPTIONS * is the gate's to refuse.
		DisableGeneralOptionsHandler: true,
		BaseContext:                  func(net.Listener) context.Context { return base },
		ConnState:                    s.running.watch,
		ErrorLog:                     serverLog(s.opts.Log.With("listener", name), slog.LevelWarn),
	}
}

// counted counts the requests that run, and tells clients during the drain to open their next
// connection elsewhere, so that few idle ones are left to be closed at its end.
func (s *Server) counted(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.running.add(1)
		defer s.running.add(-1)
		if s.Draining() && !isWebSocket(r) {
			w.Header().Set("Connection", "close")
		}
		h.ServeHTTP(w, r)
	})
}

// Listen binds both addresses. Its error names the address and the remedy; no
// address stays bound then.
func (s *Server) Listen() error {
	ln, err := s.bind("listen", s.opts.Listen)
	if err != nil {
		return err
	}
	if s.admin != nil {
		adminLn, err := s.bind("admin.listen", s.opts.AdminListen)
		if err != nil {
			_ = ln.Close()
			return err
		}
		s.adminLn = adminLn
	}
	s.publicLn = ln
	return nil
}

func (s *Server) bind(key, addr string) (net.Listener, error) {
	ln, err := (&net.ListenConfig{KeepAliveConfig: keepAlive()}).Listen(context.Background(), "tcp", addr)
	if err == nil {
		return &listener{Listener: ln, running: &s.running}, nil
	}
	remedy := "set it to host:port or :port"
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		remedy = "another process listens there; stop it or set another port"
	case errors.Is(err, fs.ErrPermission):
		remedy = "ports below 1024 need a privilege; set a higher port or grant CAP_NET_BIND_SERVICE"
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		remedy = "this machine does not have that address; set one of its own or only :port"
	}
	return nil, fmt.Errorf("proxy: %s %q: %w: %s", key, addr, err, remedy)
}

// Swap has other handlers answer every request that begins from now on, on both
// listeners at once. Requests that have begun go on with the handler they have:
// over is closed when the last of the public ones has ended, WebSockets and event
// streams included.
func (s *Server) Swap(public, admin http.Handler) (over <-chan struct{}) {
	if s.tells != nil {
		s.tells.replace(admin)
	}
	return s.answers.replace(public)
}

// URL is where the public listener is reached from this machine; empty before
// Listen.
func (s *Server) URL() string {
	if s.opts.Certificate != nil {
		return reach("https", s.publicLn)
	}
	return reach("http", s.publicLn)
}

// AdminURL is the same for the admin listener; empty when there is none.
func (s *Server) AdminURL() string { return reach("http", s.adminLn) }

func reach(scheme string, ln net.Listener) string {
	if ln == nil {
		return ""
	}
	addr, ok := ln.Addr().(*net.TCPAddr)
	if !ok {
		return ""
	}
	host := addr.IP.String()
	if addr.IP.IsUnspecified() {
		host = "127.0.0.1"
	}
	return scheme + "://" + net.JoinHostPort(host, fmt.Sprint(addr.Port))
}

// Draining tells that the end was asked for: readiness has to fail.
func (s *Server) Draining() bool { return s.draining.Load() }

// Serve serves on both listeners until ctx ends or one of them fails, and
// returns when everything has stopped. When ctx ends it reports Draining at
// once, serves on for DrainDelay, lets requests in flight finish within Grace,
// and then closes what is left, upgraded connections and event streams, for which
// nobody waits; the admin
// listener answers until the public one has stopped. It returns nil after that,
// ErrCut when requests had to be cut off, ErrNotListening without Listen, and
// otherwise what the listener failed with. It can be called once.
func (s *Server) Serve(ctx context.Context) error {
	defer s.cut()
	if s.publicLn == nil {
		return ErrNotListening
	}
	failed := make(chan error, 2)
	var serving sync.WaitGroup
	serving.Go(func() { failed <- ended("public", s.servePublic()) })
	following, unfollow := context.WithCancel(context.WithoutCancel(ctx))
	defer unfollow()
	if c := s.opts.Certificate; c != nil {
		serving.Go(func() { c.follow(following) })
	}
	if s.admin != nil {
		serving.Go(func() { failed <- ended("admin", s.admin.Serve(s.adminLn)) })
	}
	var failure error
	select {
	case failure = <-failed:
	case <-ctx.Done():
		failure = s.drain(failed)
	}
	s.draining.Store(true)
	// When a listener failed nothing new can arrive there; the rest is still
	// brought to its end in order.
	err := s.stop(context.WithoutCancel(ctx))
	unfollow()
	serving.Wait()
	return errors.Join(failure, err)
}

func (s *Server) servePublic() error {
	if s.opts.Certificate != nil {
		return s.public.ServeTLS(s.publicLn, "", "")
	}
	return s.public.Serve(s.publicLn)
}

// ended is nil when a server stopped because it was told to.
func ended(name string, err error) error {
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("proxy: %s listener: %w", name, err)
}

// drain keeps serving while readiness fails.
func (s *Server) drain(failed <-chan error) error {
	s.draining.Store(true)
	s.opts.Log.Info("draining", "delay", s.opts.DrainDelay.String(), "grace", s.opts.Grace.String())
	if s.opts.DrainDelay == 0 {
		return nil
	}
	delay := time.NewTimer(s.opts.DrainDelay)
	defer delay.Stop()
	select {
	case err := <-failed:
		return err
	case <-delay.C:
		return nil
	}
}

// stop ends the public server, then the admin one.
func (s *Server) stop(ctx context.Context) error {
	grace, cancel := context.WithTimeout(ctx, s.opts.Grace)
	defer cancel()
	var err error
	stopped := make(chan error, 1)
	go func() { stopped <- s.public.Shutdown(grace) }()
	if s.opts.Stopping != nil {
		s.opts.Stopping()
	}
	// Whatever has an end comes to it, then the tunnels and event streams go.
	s.running.wait(grace, true)
	if n := s.running.endAll(); n > 0 {
		s.opts.Log.Info("closed tunnels and event streams", "count", n)
	}
	if errors.Is(<-stopped, context.DeadlineExceeded) {
		err = ErrCut
		s.opts.Log.Warn("cutting off requests that outlast the grace time", "running", s.running.count())
		// The context first: who watches it can still say something.
		s.cut()
		_ = s.public.Close()
	}
	after, cancelAfter := context.WithTimeout(ctx, afterCut)
	defer cancelAfter()
	s.running.wait(after, false)
	if s.admin != nil && s.admin.Shutdown(after) != nil {
		_ = s.admin.Close() // a request for numbers is no reason to wait
	}
	return err
}
