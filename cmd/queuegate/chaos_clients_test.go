package main_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/queuegate/queuegate/cmd/queuegate/chaos"
)

// clients has thirty of them do something with a connection of their own, each by a
// choice of its own.
func (w *chaosWorld) clients(do func(conn *net.TCPConn, room string, chance *rand.Rand)) maker {
	return func(f *chaos.Fault) {
		chance := rand.New(rand.NewPCG(f.Pick, 0)) //nolint:gosec // what clients do, not a secret
		var open []net.Conn
		for range 30 {
			address := strings.TrimPrefix(*w.addresses[chance.IntN(len(w.gates))].Load(), "http://")
			conn, err := net.DialTimeout("tcp", address, time.Second)
			if err != nil {
				continue // a gate that is down
			}
			_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
			do(conn.(*net.TCPConn), w.rooms[chance.IntN(len(w.rooms))].name, chance)
			open = append(open, conn)
		}
		w.wait(f.For)
		for _, conn := range open {
			_ = conn.Close()
		}
	}
}

// vanishing leaves in the middle of a request, or closes only the way to the gate.
func vanishing(conn *net.TCPConn, room string, chance *rand.Rand) {
	head := fmt.Sprintf("GET /%s HTTP/1.1\r\nHost: x\r\nAccept: application/json\r\n", room)
	switch chance.IntN(5) {
	case 0:
		_, _ = io.WriteString(conn, head)
	case 1:
		_, _ = io.WriteString(conn, head+"\r\n")
		_ = conn.CloseWrite()
	case 2:
		_, _ = fmt.Fprintf(conn, "POST /%s/order HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nhalf", room)
		_ = conn.SetLinger(0)
		_ = conn.Close()
	case 3:
		_, _ = io.WriteString(conn, head+"\r\n")
		_ = conn.SetLinger(0)
		_ = conn.Close()
	default:
		_, _ = fmt.Fprintf(conn, "GET /_queue/%s/events HTTP/1.1\r\nHost: x\r\n\r\n", room)
		_ = conn.Close()
	}
}

// garbage sends what no client sends.
func garbage(conn *net.TCPConn, room string, chance *rand.Rand) {
	noise := make([]byte, 200)
	for i := range noise {
		noise[i] = byte(chance.UintN(256))
	}
	forged := "eyJhbGciOiJub25lIn0.eyJzdWIiOiJ4In0."
	switch chance.IntN(6) {
	case 0:
		_, _ = conn.Write(noise)
	case 1:
		_, _ = fmt.Fprintf(conn, "GET /%s HTTP/1.1\r\nHost: x\r\nX-Entry-Token: %s\r\nSec-Fetch-Dest: image\r\n\r\n", room, forged)
	case 2:
		_, _ = fmt.Fprintf(conn, "GET /_queue/%s/status HTTP/1.1\r\nHost: x\r\nX-Queue-Ticket: %x\r\n\r\n", room, noise)
	case 3:
		_, _ = fmt.Fprintf(conn, "GET /x/..%%2f%s HTTP/1.1\r\nHost: x\r\nCookie: queuegate_entry_%s=%s\r\nSec-Fetch-Dest: image\r\n\r\n", room, room, forged)
	case 4:
		_, _ = fmt.Fprintf(conn, "POST /_queue/%s/join HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 40\r\n\r\n%s", room, strings.Repeat("{", 40))
	default:
		_, _ = fmt.Fprintf(conn, "GET http://%s/ HTTP/1.1\r\nHost: y\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\nzzzz\r\n", room)
	}
}

// ask sends a request that nobody waits for the answer of.
func (w *chaosWorld) ask(ctx context.Context, method, url string, header map[string]string) (code int, body string) {
	req, err := http.NewRequestWithContext(ctx, method, url, nil)
	if err != nil {
		return 0, ""
	}
	for name, value := range header {
		req.Header.Set(name, value)
	}
	resp, err := w.client.Do(req)
	if err != nil {
		return 0, ""
	}
	defer func() { _ = resp.Body.Close() }()
	raw, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	return resp.StatusCode, string(raw)
}

// clientsFlood asks for the place of nobody as fast as it goes.
func (w *chaosWorld) clientsFlood(f *chaos.Fault) {
	ctx, cancel := context.WithTimeout(context.Background(), f.For)
	defer cancel()
	_ = all(4, func(i int) error {
		for n := 0; ctx.Err() == nil; n++ {
			w.ask(ctx, "GET", *w.addresses[i%len(w.gates)].Load()+"/_queue/"+w.rooms[n%len(w.rooms)].name+"/status", nil)
		}
		return nil
	})
}

// clientsForget opens the page of a room twenty times, and keeps nothing.
func (w *chaosWorld) clientsForget(f *chaos.Fault) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	for i := range 20 {
		w.ask(ctx, "GET", *w.addresses[i%len(w.gates)].Load()+"/"+w.room(f), browse())
	}
	w.wait(f.For)
}

// fileReloaded changes the limit of a room in the file, down and up again, and has all
// gates that run read it.
func (w *chaosWorld) fileReloaded(f *chaos.Fault) {
	text, err := os.ReadFile(w.config)
	require.NoError(w.t, err)
	old, now := "total_active_users: 6", "total_active_users: 5"
	if !strings.Contains(string(text), old) {
		old, now = now, old
	}
	w.gates[0].rewrite(w.t, old, now)
	f.Told = now
	for i, g := range w.gates {
		w.hands[i].Lock() // one that is started anew at the moment reads it then
		select {
		case <-g.ended:
		default:
			if err := g.cmd.Process.Signal(syscall.SIGHUP); !errors.Is(err, os.ErrProcessDone) { // killed at the moment
				require.NoError(w.t, err)
			}
		}
		w.hands[i].Unlock()
	}
}

// operated changes a value of a room by the gates' admin listeners, and clears it. Both
// are tried until a gate takes them.
func (w *chaosWorld) operated(room, change, clear string) maker {
	return func(f *chaos.Fault) {
		f.Told = room
		if w.patch(room, change, f.For) {
			w.wait(f.For)
		} else {
			f.Told += ": no gate says that it took it" // it may have all the same, or will
		}
		require.True(w.t, w.patch(room, clear, patience), "no gate takes %s", clear)
	}
}

// patch tells whether a gate took a change within a time.
func (w *chaosWorld) patch(room, change string, within time.Duration) bool {
	for began := time.Now(); ; w.wait(lookIn) {
		for i := range w.gates {
			if w.patchAt(i, room, change) {
				return true
			}
		}
		if time.Since(began) > within {
			return false
		}
	}
}

func (w *chaosWorld) patchAt(i int, room, change string) bool {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPatch, *w.admins[i].Load()+"/api/rooms/"+room, strings.NewReader(change))
	if err != nil {
		return false
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := w.client.Do(req)
	if err != nil {
		return false
	}
	defer func() { _ = resp.Body.Close() }()
	return resp.StatusCode == http.StatusOK
}
