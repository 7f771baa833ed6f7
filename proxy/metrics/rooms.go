package metrics

import (
	"context"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/queuegate/queuegate/queue"
)

const certificateEnds = "queuegate_certificate_expiry_timestamp_seconds"

// everyGate ends the help of what all gates tell alike.
const everyGate = " From Redis, the same at every gate: take max by (room)."

// describeRooms names what is read when it is asked for.
func (m *Metrics) describeRooms() {
	for _, d := range []Described{
		{"queuegate_queue_waiting", "gauge", "People in line who are here or have just joined." + everyGate, nil},
		{"queuegate_queue_active", "gauge", "Slots taken." + everyGate, nil},
		{"queuegate_queue_active_limit", "gauge", "total_active_users in force; 0 is no limit." + everyGate, nil},
		{"queuegate_queue_waiting_limit", "gauge", "max_waiting of this gate, beyond which newcomers get no place; 0 is no limit.", nil},
		{"queuegate_queue_admit_rate_limit_per_second", "gauge", "new_users_per_minute in force, a second; 0 is no limit." + everyGate, nil},
		{"queuegate_queue_admissions_per_second", "gauge", "Admissions lately while people wait." + everyGate, nil},
		{"queuegate_queue_oldest_wait_seconds", "gauge", "How long ago the first of those who are here got the place." + everyGate, nil},
		{"queuegate_queue_paused", "gauge", "Whether the room admits nobody: paused, queue_all, closed or sold_out." + everyGate, nil},
		{"queuegate_queue_state", "gauge", "1 for the state the room is in." + everyGate, []string{"state"}},
		{"queuegate_queue_healing_seconds", "gauge", "How much longer nobody is admitted after Redis lost its history." + everyGate, nil},
		{"queuegate_gates", "gauge", "Gates that have called Redis within four seconds." + everyGate, nil},
		{"queuegate_queue_joined_total", "counter", "Places given." + everyGate, nil},
		{"queuegate_queue_admitted_total", "counter", "Passes given." + everyGate, nil},
		{"queuegate_queue_claimed_total", "counter", "Passes taken up." + everyGate, nil},
		{"queuegate_queue_lapsed_total", "counter", "Passes that nobody took up in time and that fell back to their place." + everyGate, nil},
		{"queuegate_queue_returned_total", "counter", "People who were away and came back to their place." + everyGate, nil},
		{"queuegate_queue_stepped_aside_total", "counter", "People who fell silent and stepped aside, place kept." + everyGate, nil},
		{"queuegate_queue_dropped_total", "counter", "Places of people who stayed away for waiting_timeout." + everyGate, nil},
		{"queuegate_queue_restored_total", "counter", "Passes that Redis had lost and their holders brought back." + everyGate, nil},
		{"queuegate_queue_ended_total", "counter", "Stays that ended, by why; expired are sessions over and passes that were not taken up." + everyGate, []string{"why"}},
		{"queuegate_redis_up", "gauge", "Whether Redis answered this gate's last call.", nil},
		{"queuegate_upstream_refusing", "gauge", "Whether the shop takes no connections of this gate, so that it lets nobody new in.", nil},
		{"queuegate_upstream_in_flight", "gauge", "Protected requests at the shop, of this gate.", nil},
		{"queuegate_streams", "gauge", "Open event streams and WebSockets of people in line, of this gate.", nil},
	} {
		d.Labels = append([]string{"room"}, d.Labels...)
		m.read(d)
	}
	m.read(Described{certificateEnds, "gauge", "When the certificate of the public listener ends; not there without TLS.", nil})
}

// read names one metric that is read when it is asked for.
func (m *Metrics) read(d Described) {
	m.list = append(m.list, d)
	m.rooms[d.Name] = prometheus.NewDesc(d.Name, d.Help, d.Labels, nil)
}

// collector reads the rooms when it is asked.
type collector struct{ m *Metrics }

// Describe implements prometheus.Collector.
func (c collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range c.m.rooms {
		ch <- d
	}
}

// Collect implements prometheus.Collector. What Redis does not tell is left out, and
// redis_up says so.
func (c collector) Collect(ch chan<- prometheus.Metric) {
	source := c.m.source.Load()
	if source == nil {
		return
	}
	var asked sync.WaitGroup
	for _, room := range source.Rooms {
		asked.Go(func() { c.room(ch, room) })
	}
	asked.Wait()
	if source.CertificateEnds != nil {
		c.gauge(ch, certificateEnds, float64(source.CertificateEnds().Unix()))
	}
	if source.Loads == nil {
		return
	}
	for _, load := range source.Loads() {
		c.gauge(ch, "queuegate_upstream_in_flight", float64(load.InFlight), load.Room)
		c.gauge(ch, "queuegate_upstream_refusing", flag(load.Refuses), load.Room)
		c.gauge(ch, "queuegate_streams", float64(load.Streams), load.Room)
	}
}

func (c collector) gauge(ch chan<- prometheus.Metric, name string, value float64, labels ...string) {
	ch <- prometheus.MustNewConstMetric(c.m.rooms[name], prometheus.GaugeValue, value, labels...)
}

func (c collector) counter(ch chan<- prometheus.Metric, name string, value int64, labels ...string) {
	ch <- prometheus.MustNewConstMetric(c.m.rooms[name], prometheus.CounterValue, float64(value), labels...)
}

func (c collector) room(ch chan<- prometheus.Metric, room Room) {
	tally, err := room.Line.Tally(context.Background()) // it ends within redis.timeout
	up := room.Line.Up() && err == nil
	c.gauge(ch, "queuegate_redis_up", flag(up), room.Name)
	c.gauge(ch, "queuegate_queue_waiting_limit", float64(room.Line.MaxWaiting()), room.Name)
	if now, known := room.Line.Room(); known && up {
		c.now(ch, room.Name, now)
	}
	if err == nil {
		c.counted(ch, room.Name, tally)
	}
}

// now tells how the room is.
func (c collector) now(ch chan<- prometheus.Metric, name string, now queue.Room) {
	c.gauge(ch, "queuegate_queue_waiting", float64(now.Waiting), name)
	c.gauge(ch, "queuegate_queue_active", float64(now.Holding), name)
	c.gauge(ch, "queuegate_queue_active_limit", float64(now.Limits.Slots), name)
	c.gauge(ch, "queuegate_queue_admit_rate_limit_per_second", float64(now.Limits.PerMinute)/60, name)
	c.gauge(ch, "queuegate_queue_admissions_per_second", now.Flow, name)
	c.gauge(ch, "queuegate_queue_healing_seconds", now.Healing.Seconds(), name)
	c.gauge(ch, "queuegate_queue_paused", flag(now.State != queue.Open), name)
	for _, state := range queue.RoomStates() {
		c.gauge(ch, "queuegate_queue_state", flag(now.State == state), name, string(state))
	}
}

// counted tells what the room has counted.
func (c collector) counted(ch chan<- prometheus.Metric, name string, t queue.Tally) {
	c.gauge(ch, "queuegate_queue_oldest_wait_seconds", t.Oldest.Seconds(), name)
	c.gauge(ch, "queuegate_gates", float64(t.Gates), name)
	c.counter(ch, "queuegate_queue_joined_total", t.Joined, name)
	c.counter(ch, "queuegate_queue_admitted_total", t.Admitted, name)
	c.counter(ch, "queuegate_queue_claimed_total", t.Claimed, name)
	c.counter(ch, "queuegate_queue_lapsed_total", t.Lapsed, name)
	c.counter(ch, "queuegate_queue_returned_total", t.Returned, name)
	c.counter(ch, "queuegate_queue_stepped_aside_total", t.Stepped, name)
	c.counter(ch, "queuegate_queue_dropped_total", t.Dropped, name)
	c.counter(ch, "queuegate_queue_restored_total", t.Restored, name)
	for _, why := range queue.Whys() {
		c.counter(ch, "queuegate_queue_ended_total", t.Ended[why], name, string(why))
	}
}

func flag(on bool) float64 {
	if on {
		return 1
	}
	return 0
}
