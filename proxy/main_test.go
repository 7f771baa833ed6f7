package proxy_test

import (
	"testing"
	"time"

	"go.uber.org/goleak"
)

// Whatever a test starts has ended with it: no goroutine of a request, a shop or a
// watcher outlives its gate.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(patient{m})
}

// patient waits for what is about to end after the last test.
type patient struct{ *testing.M }

func (m patient) Run() int {
	code := m.M.Run()
	if code == 0 {
		awaitEnds()
	}
	return code
}

// awaitEnds waits until no goroutine is left, or for a while: on a busy machine their
// ends take longer than the moment for which they are looked for.
func awaitEnds(but ...goleak.Option) {
	for end := time.Now().Add(soon); goleak.Find(but...) != nil && time.Now().Before(end); {
	}
}
