//go:build chaos

package main_test

import "testing"

// About a minute.
func TestTenThousandAbortsLeaveNothingBehind(t *testing.T) {
	leaveInTheMiddle(t, 10_000)
}
