package proxy

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/queuegate/queuegate/token"
)

const testSecret = "0123456789abcdef0123456789abcdef"

func TestTunnelOfWhichOneSideHasHungUpEnds(t *testing.T) {
	for name, hangUp := range map[string]func(client, shop *net.TCPConn){
		"the client, and the shop takes no notice": func(client, _ *net.TCPConn) { _ = client.CloseWrite() },
		"the shop, and the client takes no notice": func(_, shop *net.TCPConn) { _ = shop.CloseWrite() },
	} {
		t.Run(name, func(t *testing.T) {
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			require.NoError(t, err)
			defer ln.Close()
			accepted := make(chan *net.TCPConn, 1)
			go func() {
				c, err := ln.Accept()
				if err != nil {
					return
				}
				_, _ = c.Read(make([]byte, 4096))
				_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
				accepted <- c.(*net.TCPConn)
			}()
			passes, err := token.New(token.Options{Issuer: "test", Secret: []byte(testSecret)})
			require.NoError(t, err)
			tickets, err := token.NewTickets([]byte(testSecret), "test")
			require.NoError(t, err)
			gate, err := New(Options{
				Upstream: Upstream{URL: &url.URL{Scheme: "http", Host: ln.Addr().String()}},
				Passes:   passes, Tickets: tickets, IdentitySecret: []byte(testSecret),
			})
			require.NoError(t, err)
			gate.shop.halfClosed = 50 * time.Millisecond
			server := httptest.NewServer(gate)
			defer server.Close()
			c, err := net.Dial("tcp", server.Listener.Addr().String())
			require.NoError(t, err)
			defer c.Close()
			require.NoError(t, c.SetDeadline(time.Now().Add(20*time.Second)))
			_, err = io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
			require.NoError(t, err)
			_, err = io.ReadFull(c, make([]byte, 12))
			require.NoError(t, err)
			shop := <-accepted
			defer shop.Close()
			require.NoError(t, shop.SetDeadline(time.Now().Add(20*time.Second)))
			hangUp(c.(*net.TCPConn), shop)
			for _, side := range []net.Conn{c, shop} {
				_, err = io.Copy(io.Discard, side)
				require.NotErrorIs(t, err, os.ErrDeadlineExceeded)
			}
		})
	}
}

// A client that vanishes without a word answers no probe: the kernel then closes
// the connection, which every reader of it sees.
func TestConnectionsAreProbedForClientsThatVanished(t *testing.T) {
	s, err := NewServer(ServerOptions{Listen: "127.0.0.1:0", Public: http.NotFoundHandler()})
	require.NoError(t, err)
	require.NoError(t, s.Listen())
	defer s.publicLn.Close()
	client, err := net.Dial("tcp", s.publicLn.Addr().String())
	require.NoError(t, err)
	defer client.Close()
	front, err := s.publicLn.Accept()
	require.NoError(t, err)
	defer front.Close()

	shop := httptest.NewServer(http.NotFoundHandler())
	defer shop.Close()
	at, err := url.Parse(shop.URL)
	require.NoError(t, err)
	back, err := Upstream{URL: at}.withDefaults().dialer(slog.New(slog.DiscardHandler))(context.Background(), "tcp", at.Host)
	require.NoError(t, err)
	defer back.Close()

	for _, c := range []net.Conn{front, back} {
		raw, err := c.(syscall.Conn).SyscallConn()
		require.NoError(t, err)
		want := map[int]int{syscall.TCP_KEEPIDLE: 30, syscall.TCP_KEEPINTVL: 15, syscall.TCP_KEEPCNT: 4}
		require.NoError(t, raw.Control(func(fd uintptr) {
			on, err := syscall.GetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_KEEPALIVE)
			require.NoError(t, err)
			require.Equal(t, 1, on)
			for option, value := range want {
				got, err := syscall.GetsockoptInt(int(fd), syscall.IPPROTO_TCP, option)
				require.NoError(t, err)
				require.Equal(t, value, got)
			}
		}))
	}
}
