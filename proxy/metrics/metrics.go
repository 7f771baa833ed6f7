package metrics

import (
	"context"
	"errors"
	"net/http"
	"runtime"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/queuegate/queuegate/proxy"
	"github.com/queuegate/queuegate/queue"
)

// scrapes is how many scrapes are answered at once; each asks Redis once a room.
const scrapes = 2

// Options are what New needs.
type Options struct {
	// Version is shown in queuegate_build_info.
	Version string
	// Fault names the kind of a failure of Redis; nil means queue.FaultOf.
	Fault func(error) string
}

// Line is what is asked of a room's line; queue.Line is one.
type Line interface {
	Room() (queue.Room, bool)
	Up() bool
	MaxWaiting() int64
	Tally(ctx context.Context) (queue.Tally, error)
}

var _ Line = (*queue.Line)(nil)

// Room is a room whose numbers are told.
type Room struct {
	Name string
	Line Line
}

// Source is where the numbers come from that are read when they are asked for.
type Source struct {
	Rooms []Room
	// Loads are what the gate has in hand; proxy.Gate.Loads is such a function.
	Loads func() []proxy.Load
	// CertificateEnds is when the certificate in use ends; nil without TLS.
	CertificateEnds func() time.Time
}

// Metrics counts for one gate. It is safe for use by any number of goroutines.
type Metrics struct {
	registry *prometheus.Registry
	source   atomic.Pointer[Source]
	fault    func(error) string
	list     []Described
	rooms    map[string]*prometheus.Desc // by name

	requests     *prometheus.CounterVec
	duration     *prometheus.HistogramVec
	shopDuration *prometheus.HistogramVec
	shopErrors   *prometheus.CounterVec
	failPolicy   *prometheus.CounterVec
	issued       *prometheus.CounterVec
	denied       *prometheus.CounterVec
	rejected     *prometheus.CounterVec
	wait         *prometheus.HistogramVec
	script       *prometheus.HistogramVec
	redisErrors  *prometheus.CounterVec
	reloaded     prometheus.Gauge
	reloadedAt   prometheus.Gauge

	// What nearly every request counts.
	asked   *children[outcome, counted]
	shopped *children[answered, prometheus.Observer]
}

// The labels of requests, duration and shopDuration.
type (
	outcome struct {
		room     string
		decision proxy.Outcome
		reason   proxy.Reason
		lasting  bool // no duration is kept
	}
	counted struct {
		requests prometheus.Counter
		duration prometheus.Observer // nil where none is kept
	}
	answered struct {
		room  string
		class int // 2 of 204
	}
)

// Described is one metric as the documentation lists it.
type Described struct {
	Name, Type, Help string
	Labels           []string
}

// New returns metrics without a source of what is read when it is asked for.
func New(o Options) (*Metrics, error) {
	m := &Metrics{registry: prometheus.NewRegistry(), fault: o.Fault, rooms: map[string]*prometheus.Desc{}}
	if m.fault == nil {
		m.fault = func(err error) string { return queue.FaultOf(err).Name }
	}
	m.requests = m.counter("queuegate_requests_total", "Requests by what became of them and why; rooms of unprotected requests are empty.", "room", "decision", "reason")
	m.duration = m.histogram("queuegate_request_duration_seconds", "Time until the answer was sent; streams and tunnels are not in it.", fast(), "room", "decision")
	m.shopDuration = m.histogram("queuegate_upstream_request_duration_seconds", "Time until the shop began its answer.", fast(), "room", "code_class")
	m.asked = newChildren(func(k outcome) counted {
		c := counted{requests: m.requests.WithLabelValues(k.room, string(k.decision), string(k.reason))}
		if !k.lasting {
			c.duration = m.duration.WithLabelValues(k.room, string(k.decision))
		}
		return c
	})
	m.shopped = newChildren(func(k answered) prometheus.Observer {
		return m.shopDuration.WithLabelValues(k.room, strconv.Itoa(k.class)+"xx")
	})
	m.shopErrors = m.counter("queuegate_upstream_errors_total", "Requests that the shop failed: timeout, unreachable, or an answer that broke off.", "room", "kind")
	m.failPolicy = m.counter("queuegate_fail_policy_total", "Requests decided without Redis, by what on_redis_error made of them.", "room", "action")
	m.issued = m.counter("queuegate_tokens_issued_total", "Passes handed out, renewed ones included.", "room")
	m.denied = m.counter("queuegate_queue_turned_away_total", "Newcomers who got no place at this gate: max_waiting people wait, or the room is closed or sold out.", "room", "why")
	m.rejected = m.counter("queuegate_token_rejections_total", "Requests whose pass was worth nothing, by why.", "room", "reason")
	m.wait = m.histogram("queuegate_queue_wait_seconds", "Time from getting a place to taking up the pass, of those who took it up at this gate.",
		[]float64{1, 2, 5, 10, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200}, "room")
	m.script = m.histogram("queuegate_redis_script_duration_seconds", "Time that calls of Redis took, as this gate saw it.",
		[]float64{0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 2}, "script")
	m.redisErrors = m.counter("queuegate_redis_errors_total", "Calls of Redis that failed, by script and kind.", "script", "kind")
	m.reloaded = m.gauge("queuegate_config_last_reload_successful", "Whether the configuration was taken over at the last attempt.")
	m.reloadedAt = m.gauge("queuegate_config_last_reload_success_timestamp_seconds", "When the configuration in force was taken over.")
	build := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "queuegate_build_info", Help: "Always 1; which program this is.",
	}, []string{"version", "go_version"})
	m.listed("queuegate_build_info", "gauge", "Always 1; which program this is.", "version", "go_version")
	build.WithLabelValues(o.Version, runtime.Version()).Set(1)
	m.describeRooms()
	m.Reloaded(nil, time.Now())
	errs := []error{m.registry.Register(build), m.registry.Register(collector{m}),
		m.registry.Register(collectors.NewGoCollector()),
		m.registry.Register(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))}
	for _, c := range []prometheus.Collector{
		m.requests, m.duration, m.shopDuration, m.shopErrors, m.failPolicy, m.issued, m.denied, m.rejected, m.wait, m.script, m.redisErrors, m.reloaded, m.reloadedAt,
	} {
		errs = append(errs, m.registry.Register(c))
	}
	return m, errors.Join(errs...)
}

// fast are the bounds of answers in seconds: a local decision at one end, the
// shop's longest answer at the other.
func fast() []float64 {
	return []float64{0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60}
}

func (m *Metrics) listed(name, kind, help string, labels ...string) {
	m.list = append(m.list, Described{Name: name, Type: kind, Help: help, Labels: labels})
}

func (m *Metrics) counter(name, help string, labels ...string) *prometheus.CounterVec {
	m.listed(name, "counter", help, labels...)
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
}

func (m *Metrics) gauge(name, help string) prometheus.Gauge {
	m.listed(name, "gauge", help)
	return prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
}

func (m *Metrics) histogram(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	m.listed(name, "histogram", help, labels...)
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
}

// Watch sets where the numbers come from that are read when they are asked for, in
// place of what was set before. Counters of what one hopes
// never to see are there from then on, at zero: the first of a counter that was not
// there before is no increase to Prometheus.
func (m *Metrics) Watch(s Source) {
	m.source.Store(&s)
	m.requested("")
	for _, room := range s.Rooms {
		m.requested(room.Name)
		for _, why := range proxy.Rejections() {
			m.rejected.WithLabelValues(room.Name, string(why))
		}
		for _, action := range []string{"open", "closed", "strict"} {
			m.failPolicy.WithLabelValues(room.Name, action)
		}
		for _, why := range queue.Refusals() {
			m.denied.WithLabelValues(room.Name, string(why))
		}
		m.issued.WithLabelValues(room.Name)
		m.wait.WithLabelValues(room.Name)
	}
	for _, script := range queue.ScriptNames() {
		m.script.WithLabelValues(script)
		m.redisErrors.WithLabelValues(script, "timeout")
	}
}

// requested makes what the requests of a room can meet, of the unprotected ones when
// room is empty.
func (m *Metrics) requested(room string) {
	for _, kind := range proxy.ShopFailures() {
		m.shopErrors.WithLabelValues(room, string(kind))
	}
	for _, class := range []string{"2xx", "5xx"} {
		m.shopDuration.WithLabelValues(room, class)
	}
	m.requests.WithLabelValues(room, string(proxy.Refused), string(proxy.ReasonInternal))
}

// Reloaded notes an attempt to take a configuration over; err says why it was not.
func (m *Metrics) Reloaded(err error, at time.Time) {
	if err != nil {
		m.reloaded.Set(0)
		return
	}
	m.reloaded.Set(1)
	m.reloadedAt.Set(float64(at.UnixMilli()) / 1000)
}

// Observe counts one request; it is what proxy.Options.Observe wants.
func (m *Metrics) Observe(o proxy.Observation) {
	if o.Outcome == "" { // no request: in a room in shadow somebody's turn has come
		m.wait.WithLabelValues(o.Room).Observe(o.Waited.Seconds())
		return
	}
	c := m.asked.of(outcome{o.Room, o.Outcome, o.Reason, o.Lasting})
	c.requests.Inc()
	if c.duration != nil {
		c.duration.Observe(o.Took.Seconds())
	}
	if o.Shop.Status != 0 {
		m.shopped.of(answered{o.Room, o.Shop.Status / 100}).Observe(o.Shop.Took.Seconds())
	}
	if o.Shop.Failure != "" {
		m.shopErrors.WithLabelValues(o.Room, string(o.Shop.Failure)).Inc()
	}
	if action := policy(o.Reason); action != "" {
		m.failPolicy.WithLabelValues(o.Room, action).Inc()
	}
	if o.Issued {
		m.issued.WithLabelValues(o.Room).Inc()
	}
	if o.Denied != "" {
		m.denied.WithLabelValues(o.Room, string(o.Denied)).Inc()
	}
	if o.Rejected != "" {
		m.rejected.WithLabelValues(o.Room, string(o.Rejected)).Inc()
	}
	if o.TookUp {
		m.wait.WithLabelValues(o.Room).Observe(o.Waited.Seconds())
	}
}

// policy is what on_redis_error made of a request, empty for one that Redis decided.
func policy(r proxy.Reason) string {
	switch r {
	case proxy.ReasonFailOpen:
		return "open"
	case proxy.ReasonDegraded:
		return "closed"
	case proxy.ReasonStrict:
		return "strict"
	default:
		return ""
	}
}

// Script counts one call of Redis; it is what queue.Options.Observe wants.
func (m *Metrics) Script(script string, took time.Duration, err error) {
	m.script.WithLabelValues(script).Observe(took.Seconds())
	if err != nil {
		m.redisErrors.WithLabelValues(script, m.fault(err)).Inc()
	}
}

// List are all metrics of this package, for the documentation.
func (m *Metrics) List() []Described { return m.list }

// Gatherer is what tests and the handler read.
func (m *Metrics) Gatherer() prometheus.Gatherer { return m.registry }

// Handler answers GET /metrics.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{
		MaxRequestsInFlight: scrapes, EnableOpenMetrics: true, ErrorHandling: promhttp.ContinueOnError,
	})
}
