package main_test

import (
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/queuegate/queuegate/queue/queuetest"
)

// container is as much of a container of examples/kubernetes as a kubelet needs to
// run the gate and to ask how it is.
type container struct {
	Name string
	Args []string
	Env  []struct{ Name, Value string }

	StartupProbe   probe `yaml:"startupProbe"`
	LivenessProbe  probe `yaml:"livenessProbe"`
	ReadinessProbe probe `yaml:"readinessProbe"`
}

type probe struct {
	HTTPGet struct{ Path, Port string } `yaml:"httpGet"`
}

// gateContainer reads the gate out of a file of an overlay.
func gateContainer(t testing.TB, file string) container {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../../examples/kubernetes/overlays", file))
	require.NoError(t, err)
	var d struct {
		Spec struct {
			Template struct {
				Spec struct {
					InitContainers []container `yaml:"initContainers"`
					Containers     []container
				}
			}
		}
	}
	require.NoError(t, yaml.Unmarshal(text, &d))
	for _, c := range append(d.Spec.Template.Spec.InitContainers, d.Spec.Template.Spec.Containers...) {
		if c.Name == "queuegate" {
			return c
		}
	}
	require.FailNow(t, "no gate in "+file)
	return container{}
}

// TestPodsStartAreAskedAndEnd replays what a kubelet does with the gate of each
// overlay: the command of the manifest with its file, environment and probes.
func TestPodsStartAreAskedAndEnd(t *testing.T) {
	t.Parallel()
	for _, file := range []string{"native-sidecar/deployment.yaml", "plain-sidecar/deployment.yaml", "standalone/gate.yaml"} {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			livePod(t, gateContainer(t, file))
		})
	}
}

func livePod(t *testing.T, c container) {
	secrets, shopAddress := t.TempDir(), freeAddress(t)
	for _, name := range []string{"token-secret", "admin-token"} {
		require.NoError(t, os.WriteFile(filepath.Join(secrets, name), []byte(signingSecret), 0o600))
	}
	var env []string
	for _, e := range c.Env {
		env = append(env, e.Name+"="+strings.ReplaceAll(e.Value, "/run/secrets/queuegate", secrets))
	}
	require.Equal(t, []string{"serve", "-c", "/etc/queuegate/queuegate.yaml"}, c.Args)
	// Addresses are those of the test, the drain is short, the rest is the manifest's.
	env = append(env, "QUEUEGATE_LISTEN=127.0.0.1:0", "QUEUEGATE_ADMIN_LISTEN=127.0.0.1:0", "QUEUEGATE_SHUTDOWN_DRAIN_DELAY=10s",
		"QUEUEGATE_UPSTREAM_URL=http://"+shopAddress, "QUEUEGATE_REDIS_URL="+queuetest.Start(t).URL, "QUEUEGATE_REDIS_TIMEOUT=5s")
	g := startGate(t, "../../examples/kubernetes/base/queuegate.yaml", env...)
	asks := func(path string) int {
		a, err := send(newClient(t), request{method: "GET", url: g.admin + path})
		if err != nil {
			return 0
		}
		return a.code
	}
	for _, p := range []string{c.StartupProbe.HTTPGet.Port, c.LivenessProbe.HTTPGet.Port, c.ReadinessProbe.HTTPGet.Port} {
		require.Equal(t, "admin", p)
	}

	// The gate is there before the shop, and says so: a native sidecar holds the shop back until then.
	_, err := net.Dial("tcp", shopAddress)
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
	for _, path := range []string{c.StartupProbe.HTTPGet.Path, c.LivenessProbe.HTTPGet.Path, c.ReadinessProbe.HTTPGet.Path} {
		eventually(t, path+" succeeds without the shop", func() bool { return asks(path) == http.StatusOK })
	}
	shop := newRecordingShop(t)
	require.Equal(t, http.StatusBadGateway, mustSend(t, newClient(t), request{method: "GET", url: g.url + "/about"}).code, "the shop's readiness waits for the shop")
	listenAs(t, shopAddress, shop.Config.Handler.ServeHTTP)
	require.Equal(t, http.StatusOK, mustSend(t, newClient(t), request{method: "GET", url: g.url + "/about"}).code)

	// People are inside, one of them in the middle of an order, when the pod has to end.
	g.waitReady(t)
	buyer, finish := newApp(t), make(chan struct{})
	buyer.enter(t, g)
	shop.behave(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			shop.hold(r, finish)
		}
		takeOrder(w, r)
	})
	type result struct {
		answer answer
		err    error
	}
	ordered := make(chan result, 1)
	go func() {
		a, err := buyer.order(g)
		ordered <- result{a, err}
	}()
	eventually(t, "the order is at the shop", func() bool { return len(shop.got("/checkout/order")) == 1 })
	require.NoError(t, g.cmd.Process.Signal(syscall.SIGTERM))
	served := 0
	eventually(t, "readiness fails while requests are still served", func() bool {
		code := asks(c.ReadinessProbe.HTTPGet.Path)
		a, err := send(newClient(t), request{method: "GET", url: g.url + "/about"})
		if err == nil && a.code == http.StatusOK && code == http.StatusServiceUnavailable {
			served++
		}
		return served > 0
	})
	require.Equal(t, http.StatusOK, asks(c.LivenessProbe.HTTPGet.Path), "a gate that drains is alive")
	eventually(t, "nothing new is accepted", func() bool {
		conn, err := net.Dial("tcp", strings.TrimPrefix(g.url, "http://"))
		if err == nil {
			_ = conn.Close()
		}
		return errors.Is(err, syscall.ECONNREFUSED)
	})
	close(finish)
	got := soon(t, ordered, "the answer to the order")
	require.NoError(t, got.err, "the order is not dropped")
	require.Equal(t, http.StatusCreated, got.answer.code, "%s", got.answer.body)
	require.Zero(t, g.exit(t), g.stderr)
}
