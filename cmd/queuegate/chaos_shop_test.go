package main_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/queuegate/queuegate/cmd/queuegate/chaos"
	"github.com/queuegate/queuegate/cmd/queuegate/crowd"
	"github.com/queuegate/queuegate/queue/queuetest"
)

// The program of the tests is a shop instead when these say where it listens and what
// it writes its journal to.
const (
	shopAddress = "QG_TEST_SHOP"
	shopJournal = "QG_TEST_SHOP_JOURNAL"
)

// What the shop of a run is told to be like, by a line that it answers with a line.
const (
	shopWell    = "well"
	shopSlow    = "slow"
	shopResets  = "resets"
	shopFails   = "fails"
	shopRefuses = "refuses"
)

// chaosShop is the shop of a run, a process of its own.
type chaosShop struct {
	addr, journal string
	cmd           *exec.Cmd
	tells         io.WriteCloser
	says          *bufio.Reader
}

func newChaosShop(t *testing.T) *chaosShop {
	s := &chaosShop{addr: net.JoinHostPort("127.0.0.1", queuetest.FreePort(t)), journal: filepath.Join(t.TempDir(), "journal")}
	s.open(t)
	t.Cleanup(s.kill)
	return s
}

// open starts the shop, or starts it again after kill, and returns when it listens.
func (s *chaosShop) open(t *testing.T) {
	program, err := os.Executable()
	require.NoError(t, err)
	s.cmd = exec.Command(program)
	s.cmd.Env = append(os.Environ(), shopAddress+"="+s.addr, shopJournal+"="+s.journal)
	s.cmd.Stderr = os.Stderr
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	s.tells, err = s.cmd.StdinPipe()
	require.NoError(t, err)
	says, err := s.cmd.StdoutPipe()
	require.NoError(t, err)
	s.says = bufio.NewReader(says)
	require.NoError(t, s.cmd.Start())
	s.hear(t)
}

// hear waits until the shop says that it is as it was told to be.
func (s *chaosShop) hear(t *testing.T) {
	line, err := s.says.ReadString('\n')
	require.NoError(t, err, "the shop has ended")
	require.Equal(t, "so\n", line)
}

// be makes the shop answer in another way from now on.
func (s *chaosShop) be(t *testing.T, how string) {
	_, err := io.WriteString(s.tells, how+"\n")
	require.NoError(t, err)
	s.hear(t)
}

// kill ends the shop at once, as kill -9 does.
func (s *chaosShop) kill() {
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
}

// entry is a line of the shop's journal: somebody who came, or an order that was taken.
// Moments are nanoseconds since 1970, which another process knows as well.
type entry struct {
	Visit *crowd.Visit `json:",omitempty"`
	Order *chaos.Order `json:",omitempty"`
}

// read is what the journal tells, in the time of a run.
func (s *chaosShop) read(t *testing.T, start time.Time) *ledger {
	file, err := os.Open(s.journal)
	require.NoError(t, err)
	defer func() { _ = file.Close() }()
	l := &ledger{start: start}
	began := crowd.At(start.UnixNano())
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		var e entry
		require.NoError(t, json.Unmarshal(lines.Bytes(), &e), "%s", lines.Text())
		switch {
		case e.Visit != nil:
			e.Visit.Begin -= began
			l.visits = append(l.visits, *e.Visit)
		case e.Order != nil:
			e.Order.Begin, e.Order.End = e.Order.Begin-began, e.Order.End-began
			l.orders = append(l.orders, *e.Order)
		}
	}
	require.NoError(t, lines.Err())
	return l
}

// keepShop is the whole life of the shop's process: it ends with who started it.
func keepShop(addr, journal string) error {
	file, err := os.OpenFile(journal, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	l := &ledger{start: time.Unix(0, 0), journal: json.NewEncoder(file)}
	d := &door{addr: addr, server: &http.Server{Handler: http.HandlerFunc(l.serve)}, inside: map[net.Conn]bool{}} //nolint:gosec // a gate is its only client
	d.server.ConnState = d.note
	troubles := map[string]func(http.ResponseWriter, *http.Request) bool{shopSlow: dawdle, shopResets: breakOff, shopFails: fail}
	told := bufio.NewScanner(os.Stdin)
	for how := shopWell; ; how = told.Text() {
		trouble, known := troubles[how]
		if known {
			l.trouble.Store(&trouble)
		} else {
			l.trouble.Store(nil)
		}
		if how == shopRefuses {
			d.shut()
		} else if err := d.open(); err != nil {
			return err
		}
		fmt.Println("so")
		if !told.Scan() {
			return told.Err()
		}
	}
}

// door is where the shop takes connections, while it is open.
type door struct {
	addr   string
	server *http.Server
	mu     sync.Mutex
	ln     net.Listener
	inside map[net.Conn]bool
}

func (d *door) note(conn net.Conn, state http.ConnState) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch state {
	case http.StateNew:
		d.inside[conn] = true
	case http.StateClosed, http.StateHijacked:
		delete(d.inside, conn)
	}
}

func (d *door) open() error {
	if d.ln != nil {
		return nil
	}
	ln, err := net.Listen("tcp", d.addr)
	if err == nil {
		d.ln = ln
		go func() { _ = d.server.Serve(ln) }()
	}
	return err
}

// shut takes no connection any more, and resets those that stand.
func (d *door) shut() {
	_ = d.ln.Close()
	d.ln = nil
	d.mu.Lock()
	defer d.mu.Unlock()
	for conn := range d.inside {
		if tcp, ok := conn.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
		}
		_ = conn.Close()
	}
}

// shopTroubled has the shop be like that for a while.
func (w *chaosWorld) shopTroubled(how string) maker {
	return func(f *chaos.Fault) {
		w.shop.be(w.t, how)
		w.wait(f.For)
		w.shop.be(w.t, shopWell)
	}
}

func (w *chaosWorld) shopKilled(f *chaos.Fault) {
	w.shop.kill()
	w.wait(f.For)
	w.shop.open(w.t)
}

func (w *chaosWorld) shopFrozen(f *chaos.Fault) {
	require.NoError(w.t, w.shop.cmd.Process.Signal(syscall.SIGSTOP))
	w.wait(f.For)
	require.NoError(w.t, w.shop.cmd.Process.Signal(syscall.SIGCONT))
}

// dawdle is a shop that takes its time, and answers.
func dawdle(_ http.ResponseWriter, r *http.Request) bool {
	select {
	case <-r.Context().Done():
		return true
	case <-time.After(time.Second):
		return false
	}
}

// breakOff resets the connection in the middle of a body.
func breakOff(w http.ResponseWriter, r *http.Request) bool {
	w.Header().Set("Content-Length", "1000")
	_, _ = io.WriteString(w, "half")
	_ = http.NewResponseController(w).Flush()
	reset(w, r)
	return true
}

func fail(w http.ResponseWriter, _ *http.Request) bool {
	w.WriteHeader(http.StatusInternalServerError)
	return true
}

// TestTheShopOfARunOutlivesWhatIsDoneToIt: what the shop wrote down before it was killed
// is there, and each way to be is what it is called.
func TestTheShopOfARunOutlivesWhatIsDoneToIt(t *testing.T) {
	t.Parallel()
	start := time.Now()
	s := newChaosShop(t)
	client := newClient(t)
	order := func() (answer, error) {
		return send(client, request{method: "POST", url: "http://" + s.addr + "/orders", header: map[string]string{
			headerPerson: "7", headerSent: "1", "X-Queuegate-Visitor": "v", "X-Queuegate-Admission": "1.1",
		}})
	}
	got, err := order()
	require.NoError(t, wants(got, err, http.StatusOK))
	s.be(t, shopFails)
	got, err = order()
	require.NoError(t, wants(got, err, http.StatusInternalServerError))
	s.be(t, shopResets)
	_, err = order()
	require.Error(t, err)
	s.be(t, shopRefuses)
	_, err = order()
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
	s.be(t, shopWell)
	s.kill()
	_, err = order()
	require.Error(t, err)
	s.open(t)
	got, err = order()
	require.NoError(t, wants(got, err, http.StatusOK))

	l := s.read(t, start)
	require.Len(t, l.visits, 4)
	require.Len(t, l.orders, 2)
	for _, v := range l.visits {
		require.Equal(t, "7 1.1 v POST /orders", strings.Join([]string{fmt.Sprint(v.Person), v.Admission, v.Visitor, v.Method, v.Path}, " "))
		require.Greater(t, v.Begin, crowd.At(0))
		require.Less(t, v.Begin, time.Since(start))
	}
}
