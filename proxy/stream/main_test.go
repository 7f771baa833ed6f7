package stream_test

import (
	"testing"
	"time"

	"go.uber.org/goleak"
)

// Whatever a test starts has ended with it: no goroutine of a stream outlives its
// connection, and none of a hub its streams.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(patient{m})
}

// patient waits for what is about to end after the last test: on a busy machine that
// takes longer than the moment for which it is looked for.
type patient struct{ *testing.M }

func (m patient) Run() int {
	code := m.M.Run()
	for end := time.Now().Add(time.Minute); code == 0 && goleak.Find() != nil && time.Now().Before(end); {
	}
	return code
}
