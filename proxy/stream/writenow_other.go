//go:build !unix

package stream

import "net"

// newNowSink has no such sink here.
func newNowSink(net.Conn) (sink, bool) { return nil, false }
