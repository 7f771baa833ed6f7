package main

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/queuegate/queuegate/queue/queuetest"
)

// realGate is queuegate with the example's own file, in front of a shop.
type realGate struct {
	t         *testing.T
	url, shop string // shop: where it expects one
}

// openGate builds the gate and starts it for a shop at an address of its own, with
// one slot so that everybody waits for the one before.
func openGate(t *testing.T) *realGate {
	t.Helper()
	dir := t.TempDir()
	binary := filepath.Join(dir, "queuegate")
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", binary, "../../cmd/queuegate").CombinedOutput()
	require.NoError(t, err, string(out))
	text, err := os.ReadFile("queuegate.yaml")
	require.NoError(t, err)
	g := &realGate{t: t, shop: "127.0.0.1:" + queuetest.FreePort(t)}
	address := "127.0.0.1:" + queuetest.FreePort(t)
	g.url = "http://" + address
	config := strings.NewReplacer("127.0.0.1:8080", address, "127.0.0.1:9000", g.shop, "total_active_users: 20", "total_active_users: 1").
		Replace(string(text))
	require.Contains(t, config, "total_active_users: 1 ")
	file := filepath.Join(dir, "queuegate.yaml")
	require.NoError(t, os.WriteFile(file, []byte(config), 0o600))

	log := &syncBuffer{}
	cmd := exec.Command(binary, "serve", "-c", file)
	cmd.Env = append(os.Environ(), "QUEUEGATE_ADMIN_LISTEN=127.0.0.1:"+queuetest.FreePort(t),
		"QUEUEGATE_REDIS_TIMEOUT=5s") // a busy machine is no outage
	cmd.Stderr = log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Log("the gate's log:\n", log.String())
		}
	})
	require.Eventually(t, func() bool {
		answer, err := asking().Get(g.url + "/_queue/checkout/status") //nolint:noctx // a probe of this machine
		if err == nil {
			_ = answer.Body.Close()
		}
		return err == nil
	}, patience, tick)
	return g
}

// guest is somebody at the gate.
type guest struct {
	g                    *realGate
	name, ticket, pass   string
	status, room, detail string // of the last answer
}

// ask sends a request and keeps what the gate hands out.
func (v *guest) ask(method, path, body string) int {
	v.g.t.Helper()
	r, err := http.NewRequestWithContext(context.Background(), method, v.g.url+path, strings.NewReader(body))
	require.NoError(v.g.t, err)
	r.Header.Set("Accept", "application/json")
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Idempotency-Key", "order-of-"+v.name)
	}
	if v.ticket != "" {
		r.Header.Set("X-Queue-Ticket", v.ticket)
	}
	if v.pass != "" {
		r.Header.Set("X-Entry-Token", v.pass)
	}
	reply, err := asking().Do(r)
	require.NoError(v.g.t, err)
	defer func() { _ = reply.Body.Close() }()
	text, err := io.ReadAll(reply.Body)
	require.NoError(v.g.t, err)
	v.detail = string(text)
	require.Empty(v.g.t, reply.Header.Get("X-Queuegate-Stock"), "the shop's word reached the buyer")
	var told struct {
		Status string
		Room   string `json:"room_state"`
		Ticket string
		Pass   string `json:"entry_token"`
	}
	_ = json.Unmarshal(text, &told) // not all answers are JSON
	v.status, v.room = told.Status, told.Room
	if told.Ticket != "" {
		v.ticket = told.Ticket
	}
	if told.Pass != "" {
		v.pass = told.Pass
	}
	if renewed := reply.Header.Get("X-Entry-Token"); renewed != "" {
		v.pass = renewed
	}
	return reply.StatusCode
}

func (v *guest) join() { v.ask(http.MethodPost, "/_queue/checkout/join", "") }

func (v *guest) await(what string, so func() bool) {
	v.g.t.Helper()
	require.Eventually(v.g.t, func() bool {
		v.ask(http.MethodGet, "/_queue/checkout/status", "")
		return so()
	}, patience, 20*tick, "%s does not come to %s: %s", v.name, what, &v.detail)
}

const oneLantern = `{"product_id": "lantern", "quantity": 1}`

func TestThroughTheGateAnOrderFreesTheSlotForTheNextPerson(t *testing.T) {
	g := openGate(t)
	w := newWorld(t)
	w.open("SHOP_LISTEN="+g.shop, "SHOP_GATE_URL="+g.url, "SHOP_PRODUCTS=lantern=2")

	ann, ben, cleo := &guest{g: g, name: "ann"}, &guest{g: g, name: "ben"}, &guest{g: g, name: "cleo"}
	ann.join()
	ann.await("ready", func() bool { return ann.status == "ready" })
	require.Equal(t, http.StatusOK, ann.ask(http.MethodGet, "/checkout", ""))
	ben.join()
	require.Equal(t, "waiting", ben.status)
	require.Equal(t, http.StatusTooManyRequests, ben.ask(http.MethodPost, "/orders", oneLantern), "around the line")

	// 202 is no commit: the pass ends when the relay says so.
	require.Equal(t, http.StatusAccepted, ann.ask(http.MethodPost, "/orders", oneLantern), ann.detail)
	ben.await("ready", func() bool { return ben.status == "ready" })
	ann.await("released", func() bool { return ann.status == "released" })

	// 201 is one: the gate ends the pass itself, and the last lantern is gone.
	require.Equal(t, http.StatusCreated, ben.ask(http.MethodPost, "/purchases", oneLantern), ben.detail)
	w.await(2, `SELECT COUNT(*) FROM orders`)
	cleo.join()
	cleo.await("sold out", func() bool { return cleo.room == "sold_out" })
	require.Equal(t, http.StatusOK, cleo.ask(http.MethodGet, "/", ""), "the shop itself stays open")
}

func TestAnOrderThatCameToNothingKeepsThePassAtTheGate(t *testing.T) {
	g := openGate(t)
	w := newWorld(t)
	w.open("SHOP_LISTEN="+g.shop, "SHOP_GATE_URL="+g.url, "SHOP_DECLINE_PERCENT=100")
	ann := &guest{g: g, name: "ann"}
	ann.join()
	ann.await("ready", func() bool { return ann.status == "ready" })
	require.Equal(t, http.StatusAccepted, ann.ask(http.MethodPost, "/orders", oneLantern), ann.detail)
	w.await(1, `SELECT COUNT(*) FROM requests WHERE status = 'failed'`)
	w.await(0, `SELECT COUNT(*) FROM outbox WHERE done_at IS NULL`)
	require.Equal(t, http.StatusOK, ann.ask(http.MethodGet, "/checkout", ""), "the pass is gone")
	require.Equal(t, http.StatusPaymentRequired, ann.ask(http.MethodPost, "/purchases", oneLantern))
	require.Equal(t, http.StatusOK, ann.ask(http.MethodGet, "/checkout", ""), "the pass is gone")
}
