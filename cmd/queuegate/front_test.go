package main_test

import (
	"bufio"
	"fmt"
	"html"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/queuegate/queuegate/queue/queuetest"
)

// frontPorts are the addresses in the files of examples/forward-auth.
var frontPorts = struct{ front, gate, shop string }{"127.0.0.1:8000", "127.0.0.1:8080", "127.0.0.1:9000"}

// example reads a file of examples/forward-auth with the addresses of a test.
func example(t testing.TB, name, front, gateURL, shopURL string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../../examples/forward-auth", name))
	require.NoError(t, err)
	var list []string
	for written, address := range map[string]string{
		frontPorts.front: front, frontPorts.gate: strings.TrimPrefix(gateURL, "http://"), frontPorts.shop: strings.TrimPrefix(shopURL, "http://"),
	} {
		require.Contains(t, string(text), written)
		_, oldPort, _ := strings.Cut(written, ":")
		_, port, _ := strings.Cut(address, ":")
		list = append(list, written, address, "port_value: "+oldPort, "port_value: "+port)
	}
	return strings.NewReplacer(list...).Replace(string(text))
}

// freeAddress is an address of the loopback interface on which nobody listens.
func freeAddress(t testing.TB) string {
	t.Helper()
	return net.JoinHostPort("127.0.0.1", queuetest.FreePort(t))
}

// daemon runs a program of others until the test ends, and returns when it
// listens. It has to stay one process, for it is killed.
func daemon(t testing.TB, address string, name string, args ...string) {
	t.Helper()
	log := &output{}
	cmd := exec.Command(name, args...)
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir(), "XDG_DATA_HOME="+t.TempDir(), "XDG_CONFIG_HOME="+t.TempDir())
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	require.NoError(t, cmd.Start())
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(ended)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
		if t.Failed() {
			text := log.String()
			t.Logf("the end of the log of %s:\n%s", name, text[max(0, len(text)-3000):])
		}
	})
	eventually(t, name+" listens", func() bool {
		select {
		case <-ended:
			return true
		default:
		}
		conn, err := net.Dial("tcp", address)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	})
	select {
	case <-ended:
		require.FailNow(t, name+" ended", log.String())
	default:
	}
}

// startNginx runs nginx with this configuration; what it writes is kept in a
// folder of the test.
func startNginx(t testing.TB, address, config string) {
	t.Helper()
	dir := t.TempDir()
	own := "http {\n    access_log off;\n"
	for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		own += fmt.Sprintf("    %s_temp_path %s;\n", kind, filepath.Join(dir, kind))
	}
	require.Equal(t, 1, strings.Count(config, "http {\n"))
	file := filepath.Join(dir, "nginx.conf")
	require.NoError(t, os.WriteFile(file, []byte(strings.Replace(config, "http {\n", own, 1)), 0o600))
	program, err := exec.LookPath("nginx")
	if err != nil {
		program = "/usr/sbin/nginx" // not everybody looks there
	}
	daemon(t, address, program, "-p", dir, "-e", "stderr", "-c", file,
		"-g", "daemon off; master_process off; pid "+filepath.Join(dir, "nginx.pid")+";")
}

// startFront starts a shop, a gate that is asked, and the front proxy that
// asks. It returns where visitors go.
func startFront(t testing.TB, start func(t testing.TB, front, gateURL, shopURL string), rooms string) (front *frontProxy, shop *recordingShop) {
	t.Helper()
	shop = newRecordingShop(t)
	redis := queuetest.Start(t)
	config := writeConfig(t, plan{more: "trusted_proxies: [127.0.0.1/32]", rooms: rooms}, "http://127.0.0.1:1", redis.URL)
	g := startGate(t, config)
	g.waitReady(t)
	address := freeAddress(t)
	start(t, address, g.url, shop.URL)
	return &frontProxy{gate: &gate{process: g.process, url: "http://" + address, admin: g.admin}, marksPrivate: true}, shop
}

// frontProxy is a gate as visitors see it behind a front proxy.
type frontProxy struct {
	*gate
	// marksPrivate: it can show the queue page in place, and mark an answer that
	// carries a pass. nginx and Caddy can, Traefik and Envoy cannot.
	marksPrivate bool
}

func startExampleNginx(t testing.TB, front, gateURL, shopURL string) {
	startNginx(t, front, example(t, "nginx.conf", front, gateURL, shopURL))
}

func TestJourneyThroughNginxThatAsksTheGate(t *testing.T) {
	t.Parallel()
	front, shop := startFront(t, startExampleNginx, room("total_active_users: 1"))
	journeyThroughFront(t, front, shop)
}

// openPage opens what a front proxy shows to somebody who may not pass: the queue
// page in place, or a page that opens it by itself.
func openPage(t *testing.T, browser *http.Client, front *frontProxy, r request) answer {
	t.Helper()
	a := mustSend(t, browser, r)
	require.Equal(t, http.StatusTooManyRequests, a.code, "%s", a.body)
	require.Equal(t, !front.marksPrivate, leads.Match(a.body))
	if to := leads.FindSubmatch(a.body); to != nil {
		return mustSend(t, browser, request{method: "GET", url: front.url + html.UnescapeString(string(to[1])), header: browse()})
	}
	return a
}

var leads = regexp.MustCompile(`http-equiv="refresh" content="0;url=([^"]+)"`)

// journeyThroughFront is the whole way of visitors through a front proxy that
// asks the gate and sends to the shop what may pass.
func journeyThroughFront(t *testing.T, front *frontProxy, shop *recordingShop) {
	// What nobody guards passes, without our headers, whatever a client claims.
	forged := map[string]string{
		"X-Queuegate-Visitor": "admin", "X-Queuegate-Admission": "1", "X-Queuegate-Room": "checkout", "X-Original-URL": "/checkout",
		"X-HTTP-Method-Override": "POST",
	}
	open := mustSend(t, newClient(t), request{method: "GET", url: front.url + "/a%2Fb//c?x=%zz", header: forged})
	require.Equal(t, http.StatusOK, open.code, "%s", open.body)
	require.Empty(t, open.header.Values("Set-Cookie"))
	seen := shop.last(t, "/a")
	require.Equal(t, "/a%2Fb//c?x=%zz", seen.Target)
	for name := range forged {
		require.Empty(t, seen.Header.Values(name), "a client's %s reaches the shop", name)
	}

	// Somebody is inside.
	holder := newApp(t)
	holder.enter(t, front.gate)
	seen = shop.last(t, "/checkout")
	p := passOf(t, holder.pass)
	require.Equal(t, []string{p.Visitor}, seen.Header.Values("X-Queuegate-Visitor"))
	require.Equal(t, []string{p.Admission}, seen.Header.Values("X-Queuegate-Admission"))
	require.Equal(t, []string{"checkout"}, seen.Header.Values("X-Queuegate-Room"))
	require.Empty(t, seen.Header.Values("X-Entry-Token"))
	got, err := holder.send(request{method: "POST", url: front.url + "/checkout/order", body: "q=1", header: forged})
	require.NoError(t, err)
	require.Equal(t, http.StatusCreated, got.code)
	require.Equal(t, []string{p.Visitor}, shop.last(t, "/checkout/order").Header.Values("X-Queuegate-Visitor"), "a client's own is replaced")
	inside := len(shop.got("/checkout"))

	// A browser gets the page, at the address it asked for, and a place.
	browser := newBrowser(t)
	page := openPage(t, browser, front, request{method: "GET", url: front.url + "/checkout?a=1&b=2", header: browse()})
	require.Equal(t, http.StatusTooManyRequests, page.code, "%s", page.body)
	require.Equal(t, []string{"text/html; charset=utf-8"}, page.header.Values("Content-Type"))
	require.Empty(t, page.header.Get("Location"))
	require.Equal(t, "no-store", page.header.Get("Cache-Control"))
	require.Regexp(t, `^[1-9]\d*$`, page.header.Get("Retry-After"))
	require.Contains(t, string(page.body), `data-state="waiting"`)
	require.Contains(t, string(page.body), `href="/checkout?a=1&amp;b=2"`)
	require.Contains(t, page.header.Get("Set-Cookie"), "queuegate_ticket_checkout=")
	again := openPage(t, browser, front, request{method: "GET", url: front.url + "/checkout?a=1&b=2", header: browse()})
	require.Contains(t, string(again.body), `<strong id="position">1</strong>`, "a reload keeps the place")

	// A form is not accepted, a program gets JSON, odd spellings do not help.
	form := browse()
	form["Referer"] = front.url + "/checkout/form"
	posted := openPage(t, browser, front, request{method: "POST", url: front.url + "/checkout/order", header: form, body: "q=1"})
	require.Equal(t, http.StatusTooManyRequests, posted.code)
	require.Contains(t, string(posted.body), "What you sent has not reached the shop")
	require.Contains(t, string(posted.body), `href="/checkout/form"`)
	for _, method := range []string{"POST", "DELETE", "PUT"} {
		call := mustSend(t, newClient(t), request{method: method, url: front.url + "/checkout/order", header: map[string]string{"Accept": "application/json"}, body: "{}"})
		require.Equal(t, http.StatusTooManyRequests, call.code, "%s: %s", method, call.body)
		require.Contains(t, call.header.Get("Content-Type"), "json", method)
		require.Contains(t, call.doc.Type, "queued", method)
	}
	for _, line := range []string{
		"GET //checkout", "GET /x/../checkout", "GET /%63heckout", "GET /x/..%2fcheckout", "GET /CHECKOUT", "GET /checkout;x=1",
		"GET /_queue/../checkout", "GET /_queue/auth", "GET /_queue/auth/about", "GET http:checkout", "GET /checkout%00", "TRACE /checkout",
	} {
		code := rawStatus(t, front.url, line)
		require.Contains(t, []int{303, 400, 403, 404, 405, 429}, code, line)
	}
	require.Len(t, shop.got("/checkout"), inside, "nobody without a pass")
	for _, r := range shop.got("/") {
		require.NotContains(t, strings.ToLower(r.Target), "/../", "%s", r.Target)
	}

	// The place becomes a pass, taken up by the request and renewed in a cookie.
	got, err = holder.send(request{method: "DELETE", url: front.url + "/_queue/checkout"})
	require.NoError(t, err)
	require.Equal(t, "left", got.doc.Status)
	left := holder.pass
	eventually(t, "it is the browser's turn", func() bool {
		a, err := send(browser, request{method: "GET", url: front.url + "/_queue/checkout/status"})
		return err == nil && a.doc.Status == "ready"
	})
	entered := mustSend(t, browser, request{method: "GET", url: front.url + "/checkout?a=1&b=2", header: browse()})
	require.Equal(t, http.StatusOK, entered.code, "%s", entered.body)
	require.Equal(t, "the shop's answer to GET /checkout?a=1&b=2", string(entered.body))
	require.Contains(t, strings.Join(entered.header.Values("Set-Cookie"), "\n"), "queuegate_entry_checkout=", "the pass that was taken up")
	if front.marksPrivate {
		require.Contains(t, strings.Join(entered.header.Values("Cache-Control"), ","), "no-store")
	}
	quiet := mustSend(t, browser, request{method: "GET", url: front.url + "/checkout", header: browse()})
	require.Equal(t, http.StatusOK, quiet.code)
	require.Empty(t, quiet.header.Values("Set-Cookie"), "nothing to renew yet")
	require.Empty(t, quiet.header.Values("Cache-Control"))

	// Who has left is refused, also with the old pass.
	old := newApp(t)
	old.pass = left
	got, err = old.open(front.gate)
	require.NoError(t, err)
	require.Equal(t, http.StatusTooManyRequests, got.code)
}

// rawStatus sends a request line as it is and returns the status of the answer.
func rawStatus(t testing.TB, url, line string) int {
	t.Helper()
	address := strings.TrimPrefix(url, "http://")
	a, err := sendRaw(address, line+" HTTP/1.1\r\nHost: "+address+"\r\nConnection: close\r\n\r\n")
	require.NoError(t, err, line)
	return a.code
}

// sendRaw sends bytes on a connection of their own and reads one answer.
func sendRaw(address, text string) (answer, error) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = conn.Close() }()
	if _, err := io.WriteString(conn, text); err != nil {
		return answer{}, err
	}
	return readAnswer(conn, text)
}

// readAnswer reads the answer to the request that text begins with.
func readAnswer(conn net.Conn, text string) (answer, error) {
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return answer{}, err
	}
	method, _, _ := strings.Cut(text, " ")
	resp, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: method})
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	return answer{code: resp.StatusCode, header: resp.Header, body: body}, err
}
