//go:build chaos

package main_test

import "testing"

func TestAbortsAtLength(t *testing.T) {
	leaveInTheMiddle(t, 10_000)
}
