//go:build !unix

package stream

import "net"

// writeNow is not to be had here.
func writeNow(net.Conn, []byte) (done bool, err error) { return false, nil }
