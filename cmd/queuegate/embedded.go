package main

import (
	"context"
	"net"

	"github.com/alicebob/miniredis/v2"
)

// embeddedMost is how many may wait on the embedded Redis: every count sorts the
// whole set there, which a few thousand bear and more do not.
const embeddedMost = 5000

// newEmbedded starts a Redis inside this process, reached without a socket:
// nothing to install, nothing durable, one gate.
func newEmbedded() (dial func(context.Context, string, string) (net.Conn, error), stop func()) {
	m := miniredis.NewMiniRedis()
	return func(context.Context, string, string) (net.Conn, error) { return m.Dial() }, m.Close
}
