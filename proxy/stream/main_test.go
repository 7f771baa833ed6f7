package stream_test

import (
	"testing"

	"go.uber.org/goleak"
)

// Whatever a test starts has ended with it: no goroutine of a stream outlives its
// connection, and none of a hub its streams.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}
