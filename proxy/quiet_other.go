//go:build !unix

package proxy

import "net"

const canTellQuiet = false

func quietness(net.Conn) func() bool { return func() bool { return false } }
