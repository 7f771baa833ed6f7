//go:build unix

package proxy

import (
	"net"
	"syscall"
)

const canTellQuiet = true

// quietness returns how to tell that nothing has come in on c and that its other end
// has not closed it: an answer that nobody asked for would be taken for that to the
// next request. It takes nothing off the connection and does not wait.
func quietness(c net.Conn) func() bool {
	tcp, ok := c.(syscall.Conn)
	if !ok {
		return func() bool { return false }
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return func() bool { return false }
	}
	quiet := false
	var one [1]byte
	look := func(fd uintptr) bool {
		_, _, err := syscall.Recvfrom(int(fd), one[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		quiet = err == syscall.EAGAIN || err == syscall.EWOULDBLOCK
		return true
	}
	return func() bool {
		quiet = false
		return raw.Read(look) == nil && quiet
	}
}
