package main_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/queuegate/queuegate/queue/queuetest"
)

func TestRoomsOnACluster(t *testing.T) {
	t.Parallel()
	cluster := queuetest.StartCluster(t)
	rooms := map[*queuetest.Server]string{} // one whose keys lie on each master
	text := ""
	for n := 0; len(rooms) < 3; n++ {
		name := fmt.Sprintf("room-%d", n)
		owner := cluster.Owner(cluster.Slot(t, name))
		if _, taken := rooms[owner]; !taken {
			rooms[owner] = name
			text += fmt.Sprintf("  - {name: %s, protect: [{paths: [/%s]}], total_active_users: 1}\n", name, name)
		}
	}
	f := startFleet(t, plan{gates: 2, rooms: text, redis: fmt.Sprintf("addrs: [%q]", cluster.Addrs[1])})
	here, there := f.gates[0], f.gates[1]
	for _, name := range rooms {
		inside, waiting, quitter := newApp(t), newApp(t), newApp(t)
		for _, a := range []*app{inside, waiting, quitter} {
			a.room, a.path = name, "/"+name
		}
		inside.enter(t, here)
		_, err := quitter.join(there, nil)
		require.NoError(t, err)
		quitter.waits(t, there)
		_, err = waiting.join(there, nil)
		require.NoError(t, err)
		require.EqualValues(t, 2, *waiting.waits(t, here).doc.Position)
		a, err := quitter.send(request{method: "DELETE", url: here.url + "/_queue/" + name})
		require.NoError(t, err)
		require.Equal(t, "left", a.doc.Status)
		_, err = inside.release(here)
		require.NoError(t, err)
		waiting.await(t, there)
		a, err = waiting.order(there)
		require.NoError(t, err)
		require.Equal(t, http.StatusCreated, a.code)
		require.Len(t, f.shop.got("/"+name), 2)
	}
	// Each master keeps nothing on disk, which each gate says once.
	for _, g := range f.gates {
		eventually(t, "the gate warns", func() bool { return strings.Count(g.stderr.String(), `"msg":"redis setting"`) == 3 })
	}
}

func TestSentinelsReplaceTheMasterUnderGates(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(testing.TB, *queuetest.Server){
		"killed": func(_ testing.TB, s *queuetest.Server) { s.Kill() },
		"frozen": func(t testing.TB, s *queuetest.Server) { s.Freeze(t) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sentinel := queuetest.StartSentinel(t)
			f := startFleet(t, plan{
				gates: 2, rooms: room("total_active_users: 1"), timeout: "500ms",
				redis: fmt.Sprintf("addrs: [%s], master_name: %s", strings.Join(sentinel.Addrs, ", "), queuetest.MasterName),
			})
			inside, waiting := newApp(t), []*app{newApp(t), newApp(t), newApp(t)}
			inside.enter(t, f.gates[0])
			places := make([]int64, len(waiting))
			for i, a := range waiting {
				_, err := a.join(f.gates[i%2], nil)
				require.NoError(t, err)
				a.waits(t, f.gates[i%2])
				places[i] = ticketOf(t, a.ticket).Place
			}
			old := sentinel.Master(t)
			require.EqualValues(t, 2, old.Client(t).Do(t.Context(), "WAIT", 2, 20_000).Val())

			end(t, old)
			degraded := 0
			for i, a := range waiting {
				require.Eventually(t, func() bool {
					got, err := inside.order(f.gates[1-i%2])
					require.NoError(t, err)
					require.Equal(t, http.StatusCreated, got.code, "the admitted pass all the time")
					got, err = a.poll(f.gates[1-i%2])
					require.NoError(t, err)
					require.Equal(t, "waiting", got.doc.Status, "%s", got.body)
					if got.doc.RoomState == "degraded" {
						degraded++
					}
					return got.doc.RoomState == "open" && *got.doc.Position == int64(i+1)
				}, patience, lookIn, "the line does not answer again")
				require.Equal(t, places[i], ticketOf(t, a.ticket).Place)
			}
			require.NotZero(t, degraded, "the failover was seen")
			sentinel.AwaitMaster(t, old)

			// The old one wakes up. Whoever asks it would be let in beside the other.
			if name == "frozen" {
				old.Thaw(t)
			} else {
				old.Resume(t)
			}
			old.AwaitFollowing(t)
			require.Eventually(t, func() bool {
				got, err := inside.release(f.gates[1])
				return err == nil && got.doc.Status == "released"
			}, patience, lookIn)
			require.Eventually(t, func() bool {
				for i := len(waiting) - 1; i >= 0; i-- {
					if _, err := waiting[i].poll(f.gates[i%2]); err != nil {
						return false
					}
				}
				return waiting[0].pass != ""
			}, patience, lookIn, "the first in line is not admitted")
			require.Empty(t, waiting[1].pass+waiting[2].pass, "and only the first")
			for _, g := range f.gates {
				require.LessOrEqual(t, strings.Count(g.stderr.String(), `"msg":"redis lost`), 2, "an outage is not logged for every call")
				require.Contains(t, g.stderr.String(), "min-replicas-to-write")
			}
		})
	}
}

// authority signs certificates for 127.0.0.1 and writes them to files.
type authority struct {
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	file string
}

func newAuthority(t *testing.T, name string) *authority {
	t.Helper()
	a := &authority{dir: t.TempDir()}
	a.file, _ = a.issue(t, name, nil)
	return a
}

// issue makes a certificate and returns the files of it and of its key. Without a
// name it signs itself and is the authority's own.
func (a *authority) issue(t *testing.T, name string, usage []x509.ExtKeyUsage) (certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), ExtKeyUsage: usage,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	parent, signer := a.cert, a.key
	if parent == nil {
		template.IsCA, template.BasicConstraintsValid, template.KeyUsage = true, true, x509.KeyUsageCertSign
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	require.NoError(t, err)
	if a.cert == nil {
		a.key = key
		a.cert, err = x509.ParseCertificate(der)
		require.NoError(t, err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	certFile, keyFile = filepath.Join(a.dir, name+".pem"), filepath.Join(a.dir, name+".key")
	for file, block := range map[string]*pem.Block{
		certFile: {Type: "CERTIFICATE", Bytes: der}, keyFile: {Type: "PRIVATE KEY", Bytes: pkcs8},
	} {
		require.NoError(t, os.WriteFile(file, pem.EncodeToMemory(block), 0o600))
	}
	return certFile, keyFile
}

func TestRedisWithTLS(t *testing.T) {
	t.Parallel()
	ours, theirs := newAuthority(t, "ours"), newAuthority(t, "theirs")
	cert, key := ours.issue(t, "redis", nil)
	gateCert, gateKey := ours.issue(t, "gate", nil)
	port := queuetest.FreePort(t)
	queuetest.Start(t, "--tls-port", port, "--tls-cert-file", cert, "--tls-key-file", key, "--tls-ca-cert-file", ours.file,
		"--tls-auth-clients", "yes")
	url := "url: \"rediss://127.0.0.1:" + port + "\", "

	t.Run("both sides prove who they are", func(t *testing.T) {
		t.Parallel()
		f := startFleet(t, plan{gates: 1, rooms: room("total_active_users: 1"),
			redis: url + fmt.Sprintf("tls: {ca_file: %q, cert_file: %q, key_file: %q}", ours.file, gateCert, gateKey)})
		newApp(t).enter(t, f.gates[0])
	})
	for name, keys := range map[string]string{
		"a server that somebody else vouches for": fmt.Sprintf("ca_file: %q, cert_file: %q, key_file: %q", theirs.file, gateCert, gateKey),
		"a server of another name":                fmt.Sprintf("ca_file: %q, cert_file: %q, key_file: %q, server_name: redis.internal", ours.file, gateCert, gateKey),
		"a gate without a certificate":            fmt.Sprintf("ca_file: %q", ours.file),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			shop := newRecordingShop(t)
			g := startGate(t, writeConfig(t, plan{rooms: room("total_active_users: 1"), redis: url + "tls: {" + keys + "}",
				more: "readiness: {require_redis: true}"}, shop.URL, ""))
			eventually(t, "readiness tells that a setting is wrong", func() bool {
				a, err := send(newClient(t), request{method: "GET", url: g.admin + "/readyz"})
				return err == nil && a.code == http.StatusServiceUnavailable && strings.Contains(string(a.body), `"reason":"redis_setting"`) &&
					strings.Contains(string(a.body), `"last_error":"tls"`)
			})
			eventually(t, "the log tells where to look", func() bool { return strings.Contains(g.stderr.String(), "see redis.tls") })
		})
	}
}
