package proxy

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
)

// inProcess is a shop that runs in the gate's own process. It is spoken to over
// connections in memory, so that all that holds for a shop elsewhere, upgrades,
// trailers, broken answers, holds for it too, and nobody reaches it around the
// gate. Nothing has to be stopped: what serves a connection ends with it.
type inProcess struct{ server *http.Server }

func newInProcess(shop http.Handler, log *slog.Logger) *inProcess {
	return &inProcess{server: &http.Server{
		Handler: shop,
		// The gate has bounded what it takes; what it adds must not be refused here.
		MaxHeaderBytes:               4 * maxHeaderBytes,
		DisableGeneralOptionsHandler: true,
		ErrorLog:                     serverLog(log.With("listener", "shop"), slog.LevelWarn),
	}}
}

// DialContext makes a connection whose other end the shop serves.
func (s *inProcess) DialContext(ctx context.Context, _, _ string) (net.Conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	gate, shop := net.Pipe()
	go func() { _ = s.server.Serve(&oneConn{conn: shop}) }()
	return gate, nil
}

// oneConn is a listener that has one connection to give, and is at its end then.
type oneConn struct{ conn net.Conn }

// Accept implements net.Listener.
func (l *oneConn) Accept() (net.Conn, error) {
	if l.conn == nil {
		return nil, io.EOF
	}
	conn := l.conn
	l.conn = nil
	return conn, nil
}

// Close implements net.Listener.
func (l *oneConn) Close() error { return nil }

// Addr implements net.Listener.
func (l *oneConn) Addr() net.Addr { return inMemory{} }

type inMemory struct{}

// Network implements net.Addr.
func (inMemory) Network() string { return "memory" }

// String implements net.Addr.
func (inMemory) String() string { return "shop" }
