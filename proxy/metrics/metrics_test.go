package metrics_test

import (
	"context"
	"errors"
	"io"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/queuegate/queuegate/proxy"
	"github.com/queuegate/queuegate/proxy/metrics"
	"github.com/queuegate/queuegate/queue"
)

// room is a line that tells what a test wants.
type room struct {
	now   queue.Room
	tally queue.Tally
	err   error
}

func (r *room) Room() (queue.Room, bool)                   { return r.now, true }
func (r *room) Up() bool                                   { return r.err == nil }
func (r *room) MaxWaiting() int64                          { return 9000 }
func (r *room) Tally(context.Context) (queue.Tally, error) { return r.tally, r.err }

func newMetrics(t testing.TB, rooms ...metrics.Room) *metrics.Metrics {
	t.Helper()
	m, err := metrics.New(metrics.Options{Version: "1.2.3"})
	require.NoError(t, err)
	m.Watch(metrics.Source{Rooms: rooms, Loads: func() []proxy.Load {
		return []proxy.Load{{Room: "sale", InFlight: 3, Streams: 7, Refuses: true}}
	}, CertificateEnds: func() time.Time { return time.Unix(1_800_000_000, 0) }})
	return m
}

func busy() *room {
	return &room{
		now: queue.Room{State: queue.Paused, Waiting: 4000, Holding: 199, Limits: queue.Limits{Slots: 200, PerMinute: 3000}, Flow: 2.5},
		tally: queue.Tally{
			Joined: 5000, Admitted: 900, Claimed: 850, Lapsed: 40, Oldest: 90 * time.Second, Gates: 2,
			Ended: map[queue.Why]int64{queue.Consumed: 500, queue.Expired: 12},
		},
	}
}

// scrape is what Prometheus reads, line by line, without comments.
func scrape(t *testing.T, m *metrics.Metrics) []string {
	t.Helper()
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	require.Equal(t, 200, w.Code)
	text, err := io.ReadAll(w.Body)
	require.NoError(t, err)
	return slices.DeleteFunc(strings.Split(string(text), "\n"), func(s string) bool { return strings.HasPrefix(s, "#") })
}

func everything(m *metrics.Metrics) {
	m.Observe(proxy.Observation{
		Decision: proxy.Decision{Outcome: proxy.Proxied, Reason: proxy.ReasonClaimed, Room: "sale"}, Took: time.Second,
		Shop:   proxy.ShopObservation{Asked: true, Status: 204, Took: time.Second / 2, Failure: proxy.ShopBroke},
		TookUp: true, Waited: time.Minute, Issued: true, Denied: queue.Full, Rejected: proxy.RejectedEnded,
	})
	m.Observe(proxy.Observation{Decision: proxy.Decision{Outcome: proxy.Proxied, Reason: proxy.ReasonFailOpen, Room: "sale"}, Lasting: true, Took: time.Hour})
	m.Script("join", time.Millisecond, nil)
	m.Script("join", time.Millisecond, context.DeadlineExceeded)
}

func TestMetricsFollowTheConventions(t *testing.T) {
	m := newMetrics(t, metrics.Room{Name: "sale", Line: busy()})
	everything(m)
	problems, err := testutil.GatherAndLint(m.Gatherer())
	require.NoError(t, err)
	require.Empty(t, problems)
}

func TestTheListNamesEachMetricAndItsLabels(t *testing.T) {
	m := newMetrics(t, metrics.Room{Name: "sale", Line: busy()})
	everything(m)
	families, err := m.Gatherer().Gather()
	require.NoError(t, err)
	got := map[string][]string{}
	for _, family := range families {
		if !strings.HasPrefix(family.GetName(), "queuegate_") {
			continue
		}
		labels := []string{}
		for _, pair := range family.GetMetric()[0].GetLabel() {
			labels = append(labels, pair.GetName())
		}
		got[family.GetName()] = labels
		require.NotEmpty(t, family.GetHelp(), family.GetName())
	}
	want := map[string][]string{}
	for _, d := range m.List() {
		want[d.Name] = slices.Sorted(slices.Values(d.Labels))
		if want[d.Name] == nil {
			want[d.Name] = []string{}
		}
	}
	require.Equal(t, want, got)
}

func TestRequestsAreCounted(t *testing.T) {
	m := newMetrics(t, metrics.Room{Name: "sale", Line: busy()})
	everything(m)
	lines := scrape(t, m)
	for _, want := range []string{
		`queuegate_requests_total{decision="proxied",reason="claimed",room="sale"} 1`,
		`queuegate_requests_total{decision="proxied",reason="fail_open",room="sale"} 1`,
		`queuegate_request_duration_seconds_count{decision="proxied",room="sale"} 1`,
		`queuegate_upstream_request_duration_seconds_sum{code_class="2xx",room="sale"} 0.5`,
		`queuegate_upstream_errors_total{kind="broke_off",room="sale"} 1`,
		`queuegate_upstream_errors_total{kind="timeout",room="sale"} 0`,
		`queuegate_fail_policy_total{action="open",room="sale"} 1`,
		`queuegate_tokens_issued_total{room="sale"} 1`,
		`queuegate_queue_turned_away_total{room="sale",why="full"} 1`,
		`queuegate_token_rejections_total{reason="ended",room="sale"} 1`,
		`queuegate_queue_wait_seconds_sum{room="sale"} 60`,
		`queuegate_redis_script_duration_seconds_count{script="join"} 2`,
		`queuegate_redis_errors_total{kind="timeout",script="join"} 1`,
		`queuegate_config_last_reload_successful 1`,
	} {
		require.Contains(t, lines, want)
	}
	m.Reloaded(errors.New("a key is misspelt"), time.Now())
	require.Contains(t, scrape(t, m), `queuegate_config_last_reload_successful 0`)
}

func TestARoomIsToldAsRedisHasIt(t *testing.T) {
	m := newMetrics(t, metrics.Room{Name: "sale", Line: busy()})
	lines := scrape(t, m)
	for _, want := range []string{
		`queuegate_queue_waiting{room="sale"} 4000`,
		`queuegate_queue_active{room="sale"} 199`,
		`queuegate_queue_active_limit{room="sale"} 200`,
		`queuegate_queue_admit_rate_limit_per_second{room="sale"} 50`,
		`queuegate_queue_admissions_per_second{room="sale"} 2.5`,
		`queuegate_queue_paused{room="sale"} 1`,
		`queuegate_queue_state{room="sale",state="paused"} 1`,
		`queuegate_queue_state{room="sale",state="open"} 0`,
		`queuegate_queue_oldest_wait_seconds{room="sale"} 90`,
		`queuegate_gates{room="sale"} 2`,
		`queuegate_queue_joined_total{room="sale"} 5000`,
		`queuegate_queue_lapsed_total{room="sale"} 40`,
		`queuegate_queue_ended_total{room="sale",why="consumed"} 500`,
		`queuegate_queue_ended_total{room="sale",why="left"} 0`,
		`queuegate_redis_up{room="sale"} 1`,
		`queuegate_upstream_in_flight{room="sale"} 3`,
		`queuegate_queue_waiting_limit{room="sale"} 9000`,
		`queuegate_upstream_refusing{room="sale"} 1`,
		`queuegate_certificate_expiry_timestamp_seconds 1.8e+09`,
		`queuegate_streams{room="sale"} 7`,
	} {
		require.Contains(t, lines, want)
	}
}

// The first increment of a counter that was not there before is none to Prometheus,
// and an alert that waits for it would stay silent.
func TestWhatAlertsWaitForIsThereBeforeItHappens(t *testing.T) {
	m := newMetrics(t, metrics.Room{Name: "sale", Line: busy()})
	lines := scrape(t, m)
	for _, want := range []string{
		`queuegate_requests_total{decision="refused",reason="internal",room="sale"} 0`,
		`queuegate_requests_total{decision="refused",reason="internal",room=""} 0`,
		`queuegate_queue_turned_away_total{room="sale",why="full"} 0`,
		`queuegate_queue_turned_away_total{room="sale",why="sold_out"} 0`,
		`queuegate_token_rejections_total{reason="signature",room="sale"} 0`,
		`queuegate_fail_policy_total{action="open",room="sale"} 0`,
		`queuegate_upstream_errors_total{kind="timeout",room="sale"} 0`,
		`queuegate_upstream_request_duration_seconds_count{code_class="5xx",room="sale"} 0`,
		`queuegate_upstream_request_duration_seconds_count{code_class="5xx",room=""} 0`,
		`queuegate_queue_wait_seconds_count{room="sale"} 0`,
		`queuegate_redis_errors_total{kind="timeout",script="join"} 0`,
		`queuegate_redis_script_duration_seconds_count{script="touch"} 0`,
	} {
		require.Contains(t, lines, want)
	}
}

func TestWithoutTLSNoCertificateEnds(t *testing.T) {
	m := newMetrics(t)
	m.Watch(metrics.Source{})
	require.NotContains(t, strings.Join(scrape(t, m), "\n"), "certificate")
}

func TestWithoutRedisARoomHasNoNumbersAndSaysSo(t *testing.T) {
	gone := busy()
	gone.err = errors.New("away")
	m := newMetrics(t, metrics.Room{Name: "sale", Line: gone})
	lines := scrape(t, m)
	require.Contains(t, lines, `queuegate_redis_up{room="sale"} 0`)
	for _, line := range lines {
		require.False(t, strings.HasPrefix(line, "queuegate_queue_waiting{") || strings.HasPrefix(line, "queuegate_queue_joined_total{"),
			"an old number looks like a true one: %s", line)
	}
}

func TestAnotherConfigurationTakesTheOldRoomsAway(t *testing.T) {
	m := newMetrics(t, metrics.Room{Name: "sale", Line: busy()})
	m.Watch(metrics.Source{Rooms: []metrics.Room{{Name: "drop", Line: busy()}}})
	lines := scrape(t, m)
	require.Contains(t, lines, `queuegate_queue_waiting{room="drop"} 4000`)
	require.NotContains(t, lines, `queuegate_queue_waiting{room="sale"} 4000`)
}
