package proxy_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
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
		conn, r, _ := openStream(t, words[0], words[1], b.ticketFor(int64(i+1)))
		defer conn.Close()
		readers[i] = bufio.NewReaderSize(untilNumber{conn}, 2048)
		_ = r
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

// BenchmarkStreams holds 15,000 streams at one gate and tells all of them one
// update: bytes of gate memory a stream, and milliseconds from the first to hear of
// it to the last, with what the gate's process used of the processors meanwhile. Run it with -benchtime 1x.
func BenchmarkStreams(b *testing.B) {
	for _, kind := range []string{"events", "ws"} {
		b.Run(kind, func(b *testing.B) {
			const n = 15_000
			gate, line := newDeepBench(b, func(o *proxy.Options) { o.Log = nil })
			before := inUse()
			child := exec.Command(os.Args[0], "-test.run", "^TestStreamClients$", "-test.timeout", "5m")
			child.Env = append(os.Environ(), fmt.Sprintf("%s=%s %s %d", clientsEnv, gate.server.Listener.Addr(), kind, n))
			child.Stderr = os.Stderr
			out, err := child.StdoutPipe()
			require.NoError(b, err)
			in, err := child.StdinPipe()
			require.NoError(b, err)
			require.NoError(b, child.Start())
			lines := bufio.NewScanner(out)
			require.True(b, lines.Scan())
			require.Equal(b, "open", lines.Text())
			require.True(b, lines.Scan())
			b.ReportMetric(float64(inUse()-before)/n, "B/stream")
			busy := cpuTime(b)
			line.ahead.Store(30_000)
			require.True(b, lines.Scan())
			b.ReportMetric(float64((cpuTime(b)-busy).Microseconds())/1000, "cpu-ms/update")
			var micros int
			_, err = fmt.Sscanf(lines.Text(), "told %d", &micros)
			require.NoError(b, err)
			b.ReportMetric(float64(micros)/1000, "ms/update")
			_ = in.Close()
			_ = child.Wait()
			gate.gate.CloseStreams()
		})
	}
}
