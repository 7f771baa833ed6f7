package main_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/queuegate/queuegate/proxy/metrics"
)

const observability = "../../examples/observability"

// grafana is what the test reads of the dashboard.
type grafana struct {
	Panels []struct {
		Title   string
		Targets []struct{ Expr string }
	}
	Templating struct {
		List []struct {
			Query json.RawMessage
		}
	}
}

// alert is one rule of alerts.yml.
type alert struct {
	Alert       string
	Expr        string
	Labels      map[string]string
	Annotations map[string]string
}

func exampleDashboard(t *testing.T) grafana {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(observability, "dashboard.json"))
	require.NoError(t, err)
	var d grafana
	require.NoError(t, json.Unmarshal(raw, &d))
	return d
}

func exampleAlerts(t *testing.T) []alert {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(observability, "alerts.yml"))
	require.NoError(t, err)
	var file struct {
		Groups []struct{ Rules []alert }
	}
	require.NoError(t, yaml.Unmarshal(raw, &file))
	require.Len(t, file.Groups, 1)
	return file.Groups[0].Rules
}

// ourMetric finds what is ours in a query.
var ourMetric = regexp.MustCompile(`queuegate_[a-z0-9_]+`)

func TestDashboardAndAlertsAskForMetricsThereAre(t *testing.T) {
	t.Parallel()
	m, err := metrics.New(metrics.Options{})
	require.NoError(t, err)
	known := map[string]bool{}
	for _, d := range m.List() {
		names := []string{d.Name}
		if d.Type == "histogram" {
			names = []string{d.Name + "_bucket", d.Name + "_count", d.Name + "_sum"}
		}
		for _, name := range names {
			known[name] = true
		}
	}
	for _, file := range []string{"dashboard.json", "alerts.yml", "alerts_test.yml"} {
		raw, err := os.ReadFile(filepath.Join(observability, file))
		require.NoError(t, err)
		names := ourMetric.FindAllString(string(raw), -1)
		require.NotEmpty(t, names)
		for _, name := range names {
			require.True(t, known[name], "%s asks for %s, which no gate tells", file, name)
		}
	}
}

// promtool runs a check of Prometheus itself over the files of the example.
func promtool(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.Command("promtool", args...)
	cmd.Dir = observability
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "promtool %v\n%s", args, out)
	return string(out)
}

func TestEachAlertFiresWhenItShouldAndNotInAGoodSale(t *testing.T) {
	t.Parallel()
	promtool(t, "check", "config", "prometheus.yml")
	promtool(t, "check", "rules", "alerts.yml")
	promtool(t, "test", "rules", "alerts_test.yml")

	// What promtool holds true is worth what the scenarios ask for.
	raw, err := os.ReadFile(filepath.Join(observability, "alerts_test.yml"))
	require.NoError(t, err)
	var file struct {
		Tests []struct {
			PromqlExprTest []struct {
				Expr       string
				ExpSamples []struct{ Labels string } `yaml:"exp_samples"`
			} `yaml:"promql_expr_test"`
		}
	}
	require.NoError(t, yaml.Unmarshal(raw, &file))
	fires := map[string]bool{}
	for i, scenario := range file.Tests {
		silent := false
		for _, asked := range scenario.PromqlExprTest {
			require.Equal(t, `count by (alertname) (ALERTS{alertstate="firing"})`, asked.Expr)
			silent = silent || len(asked.ExpSamples) == 0
			for _, sample := range asked.ExpSamples {
				fires[sample.Labels] = true
				require.NotZero(t, i, "the first scenario is the good sale")
			}
		}
		require.True(t, silent, "scenario %d never shows silence", i+1)
	}
	rules := exampleAlerts(t)
	require.Len(t, fires, len(rules))
	for _, rule := range rules {
		require.True(t, fires[fmt.Sprintf("{alertname=%q}", rule.Alert)], "no scenario in which %s fires", rule.Alert)
		require.Contains(t, []string{"page", "ticket"}, rule.Labels["severity"], rule.Alert)
		require.NotEmpty(t, rule.Annotations["summary"], rule.Alert)
		require.NotEmpty(t, rule.Annotations["description"], rule.Alert)
	}
}

// monitor is a running Prometheus. It takes 512 connections, so one client asks it.
type monitor struct {
	base   string
	client *http.Client
}

// startPrometheus runs Prometheus with the files of the example, scraping these gates.
func startPrometheus(t *testing.T, gates []*gate) monitor {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(observability, "prometheus.yml"))
	require.NoError(t, err)
	rules, err := filepath.Abs(filepath.Join(observability, "alerts.yml"))
	require.NoError(t, err)
	text := string(raw)
	for _, change := range [][2]string{
		{`["gate-1:9090", "gate-2:9090"]`, fmt.Sprintf("[%q, %q]", strings.TrimPrefix(gates[0].admin, "http://"), strings.TrimPrefix(gates[1].admin, "http://"))},
		{"alerts.yml", rules}, {"scrape_interval: 15s", "scrape_interval: 500ms"}, {"evaluation_interval: 15s", "evaluation_interval: 500ms"},
	} {
		require.Contains(t, text, change[0])
		text = strings.Replace(text, change[0], change[1], 1)
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "prometheus.yml")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	address := freeAddress(t)
	daemon(t, address, "prometheus", "--config.file="+file, "--storage.tsdb.path="+filepath.Join(dir, "data"),
		"--web.listen-address="+address, "--log.level=warn")
	m := monitor{base: "http://" + address, client: newClient(t)}
	eventually(t, "Prometheus is ready", func() bool {
		got, err := send(m.client, request{method: "GET", url: m.base + "/-/ready"})
		return err == nil && got.code == 200
	})
	return m
}

// prometheusAnswer is what Prometheus answers to a query or about its rules.
type prometheusAnswer struct {
	Status string
	Error  string
	Data   struct {
		Result []json.RawMessage
		Groups []struct {
			Rules []struct{ Name, Health, LastError string }
		}
	}
}

func (m monitor) ask(t *testing.T, target string) prometheusAnswer {
	t.Helper()
	got, err := send(m.client, request{method: "GET", url: m.base + "/api/v1/" + target})
	require.NoError(t, err)
	var a prometheusAnswer
	require.NoError(t, json.Unmarshal(got.body, &a), "%s", got.body)
	require.Equal(t, "success", a.Status, "%s: %s", target, a.Error)
	return a
}

// series tells for how many series a query has an answer.
func (m monitor) series(t *testing.T, query string) int {
	t.Helper()
	return len(m.ask(t, "query?query="+url.QueryEscape(query)).Data.Result)
}

// selector finds what a query reads: a metric with the labels it wants.
var selector = regexp.MustCompile(`(?:queuegate_[a-z0-9_]+|up)(?:\{[^}]*\})?`)

// A panel that is empty on the day of the sale, or an alert on what nobody tells, is
// found here and not then: Prometheus scrapes two gates with people inside and in line.
func TestEveryQueryOfDashboardAndAlertsHasSeries(t *testing.T) {
	t.Parallel()
	f := startFleet(t, plan{gates: 1, rooms: room("total_active_users: 1, max_waiting: 100"), timeout: "2s"})
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	pair(t, "gate", cert, key)
	withTLS := filepath.Join(dir, "queuegate.yaml")
	text, err := os.ReadFile(f.config)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(withTLS, fmt.Appendf(text, "\ntls: {cert_file: %q, key_file: %q}\n", cert, key), 0o600))
	two := startGate(t, withTLS)
	two.waitReady(t)
	prometheus := startPrometheus(t, []*gate{f.gates[0], two})

	newApp(t).enter(t, f.gates[0])
	waiting := newApp(t)
	_, err = waiting.join(f.gates[0], nil)
	require.NoError(t, err)

	var queries []string
	for _, p := range exampleDashboard(t).Panels {
		for _, target := range p.Targets {
			queries = append(queries, strings.NewReplacer("$__rate_interval", "1m", "$room", ".*").Replace(target.Expr))
		}
	}
	require.Greater(t, len(queries), 40)
	rules := exampleAlerts(t)
	for _, rule := range rules {
		reads := selector.FindAllString(rule.Expr, -1)
		require.NotEmpty(t, reads, rule.Alert)
		queries = append(queries, reads...)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("without an answer: %q", queries)
		}
	})
	require.Eventually(t, func() bool {
		waiting.waits(t, f.gates[0])
		queries = slices.DeleteFunc(queries, func(query string) bool { return prometheus.series(t, query) > 0 })
		return len(queries) == 0
	}, patience, lookIn, "each query has an answer")
	require.Equal(t, 2, prometheus.series(t, `up{job="queuegate"} == 1`))
	eventually(t, "each rule was evaluated without a fault", func() bool {
		good := 0
		for _, group := range prometheus.ask(t, "rules").Data.Groups {
			for _, rule := range group.Rules {
				require.NotEqual(t, "err", rule.Health, "%s: %s", rule.Name, rule.LastError)
				if rule.Health == "ok" {
					good++
				}
			}
		}
		return good == len(rules)
	})
}
