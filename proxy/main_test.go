package proxy_test

import (
	"testing"

	"go.uber.org/goleak"
)

// Whatever a test starts has ended with it: no goroutine of a request, a shop or a
// watcher outlives its gate.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}
