package proxy_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/queuegate/queuegate/proxy"
)

// The clients of the benchmark are a process of their own: a stream takes a
// descriptor at each end.
const clientsEnv = "QUEUEGATE_TEST_STREAM_CLIENTS" // address, kind, number

// TestStreamClients is that process. By itself it does nothing.
func TestStreamClients(t *testing.T) {
	words := strings.Fields(os.Getenv(clientsEnv))
	if len(words) == 0 {
		return
	}
	n, err := strconv.Atoi(words[2])
	require.NoError(t, err)
	b := newBench(t)
	readers := make([]*bufio.Reader, n)
	for i := range readers {
		var conn net.Conn
		if words[1] == "bare" {
			conn, err = net.Dial("tcp", words[0])
			require.NoError(t, err)
		} else {
			conn, _, _ = openStream(t, words[0], words[1], b.ticketFor(int64(i+1)))
			require.NoError(t, conn.SetReadDeadline(time.Time{})) // it stays as long as is measured
		}
		defer conn.Close()
		readers[i] = bufio.NewReaderSize(untilNumber{conn}, 2048)
	}
	fmt.Println("open")
	var first, last time.Time
	var mu sync.Mutex
	var all sync.WaitGroup
	for _, r := range readers {
		all.Go(func() {
			awaitText(t, r, `"ahead":30000`)
			now := time.Now()
			mu.Lock()
			defer mu.Unlock()
			if first.IsZero() {
				first = now
			}
			last = now
		})
	}
	fmt.Println("reading")
	all.Wait()
	fmt.Printf("told %d\n", last.Sub(first).Microseconds())
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// cpuTime is what this process has used.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var used syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &used))
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// clients are a process that holds many connections to an address.
type clients struct {
	b     *testing.B
	lines *bufio.Scanner
	end   func()
}

func startClients(b *testing.B, addr, kind string, n int) *clients {
	b.Helper()
	child := exec.Command(os.Args[0], "-test.run", "^TestStreamClients$", "-test.timeout", "5m")
	child.Env = append(os.Environ(), fmt.Sprintf("%s=%s %s %d", clientsEnv, addr, kind, n))
	child.Stderr = os.Stderr
	out, err := child.StdoutPipe()
	require.NoError(b, err)
	in, err := child.StdinPipe()
	require.NoError(b, err)
	require.NoError(b, child.Start())
	return &clients{b: b, lines: bufio.NewScanner(out), end: func() {
		_ = in.Close()
		_ = child.Wait()
	}}
}

func (c *clients) says(word string) string {
	c.b.Helper()
	require.True(c.b, c.lines.Scan())
	require.Contains(c.b, c.lines.Text(), word)
	return c.lines.Text()
}

// tells measures an update: what this process used of the processors until all have
// heard of it, and the time from the first to the last.
func (c *clients) tells(update func()) {
	c.b.Helper()
	busy := cpuTime(c.b)
	update()
	told := c.says("told")
	c.b.ReportMetric(float64((cpuTime(c.b)-busy).Microseconds())/1000, "cpu-ms/update")
	var micros int
	_, err := fmt.Sscanf(told, "told %d", &micros)
	require.NoError(c.b, err)
	c.b.ReportMetric(float64(micros)/1000, "ms/update")
	load, err := os.ReadFile("/proc/loadavg")
	require.NoError(c.b, err)
	var minute float64
	_, err = fmt.Sscan(string(load), &minute)
	require.NoError(c.b, err)
	c.b.ReportMetric(minute, "load")
}

// BenchmarkStreams holds 15,000 streams at one gate and tells all of them one
// update: bytes of gate memory a stream, and milliseconds from the first to hear of
// it to the last, with what the gate's process used of the processors meanwhile. bare
// is the same by a loop of write(2) for each processor, and nothing else. Run it with
// -benchtime 1x.
func BenchmarkStreams(b *testing.B) {
	const n = 15_000
	for _, kind := range []string{"events", "ws"} {
		b.Run(kind, func(b *testing.B) {
			gate, line := newDeepBench(b, func(o *proxy.Options) { o.Log = nil })
			before := inUse()
			c := startClients(b, gate.server.Listener.Addr().String(), kind, n)
			defer c.end()
			c.says("open")
			c.says("reading")
			b.ReportMetric(float64(inUse()-before)/n, "B/stream")
			c.tells(func() { line.ahead.Store(30_000) })
			gate.gate.CloseStreams()
		})
	}
	b.Run("bare", func(b *testing.B) {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(b, err)
		defer ln.Close()
		c := startClients(b, ln.Addr().String(), "bare", n)
		defer c.end()
		conns := make([]*os.File, n)
		for i := range conns {
			conn, err := ln.Accept()
			require.NoError(b, err)
			conns[i], err = conn.(*net.TCPConn).File()
			require.NoError(b, err)
			require.NoError(b, conn.Close())
			defer conns[i].Close()
		}
		c.says("open")
		c.says("reading")
		text := []byte(`data: {"ahead":30000,` + strings.Repeat("x", 300) + "\n\n")
		c.tells(func() {
			for hand := range runtime.GOMAXPROCS(0) {
				go func() {
					for i := hand; i < n; i += runtime.GOMAXPROCS(0) {
						_, _ = syscall.Write(int(conns[i].Fd()), text)
					}
				}()
			}
		})
	})
}
