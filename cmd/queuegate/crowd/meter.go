package crowd

import (
	"math"
	"sync/atomic"
	"time"
)

const (
	// meterLeast is the shortest time that a Meter tells from none, meterStep how much
	// longer the times of each class are than those of the one before.
	meterLeast   = 10 * time.Microsecond
	meterStep    = 1.05
	meterClasses = 400 // the last begins at 50 minutes
)

// Meter counts times in classes a twentieth wide. It is safe for use by any number of
// goroutines; the zero Meter is ready.
type Meter struct {
	classes [meterClasses]atomic.Int64
	most    atomic.Int64
}

// Note counts one time.
func (m *Meter) Note(d time.Duration) {
	class := 0
	if d > meterLeast {
		class = min(int(math.Log(float64(d)/float64(meterLeast))/math.Log(meterStep))+1, meterClasses-1)
	}
	m.classes[class].Add(1)
	for {
		most := m.most.Load()
		if int64(d) <= most || m.most.CompareAndSwap(most, int64(d)) {
			return
		}
	}
}

// Count is how many times were noted.
func (m *Meter) Count() (n int64) {
	for i := range m.classes {
		n += m.classes[i].Load()
	}
	return n
}

// Quantile is a time that a share q of those noted did not exceed, a twentieth too
// long at most; 0 when none was noted.
func (m *Meter) Quantile(q float64) time.Duration {
	total := m.Count()
	if total == 0 {
		return 0
	}
	wanted, sum := int64(math.Ceil(q*float64(total))), int64(0)
	for i := range m.classes {
		if sum += m.classes[i].Load(); sum >= wanted {
			return min(time.Duration(float64(meterLeast)*math.Pow(meterStep, float64(i))), m.Most())
		}
	}
	return m.Most()
}

// Most is the longest time.
func (m *Meter) Most() time.Duration { return time.Duration(m.most.Load()) }

// Counts are numbers that can be read while a crowd is at it. Waiting and Inside rise
// and fall, the others only rise.
type Counts struct {
	Waiting, Inside                                     atomic.Int64
	Arrived, Admitted, Ordered, Refused, GaveUp, Failed atomic.Int64
	Requests, Polls                                     atomic.Int64
}

// Meters are the times of a crowd.
type Meters struct {
	Join, Status, Through Meter // of answers: to a place, to a poll, from the shop
	Late                  Meter // how much later than meant people did something, by the fault of this process
}
