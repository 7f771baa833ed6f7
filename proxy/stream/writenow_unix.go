//go:build unix

package stream

import (
	"net"
	"syscall"
)

// writeNow writes b if the kernel takes all of it at once, and else fails: nobody
// waits for one slow reader. done is false when c is not a plain connection.
func writeNow(c net.Conn, b []byte) (done bool, err error) {
	plain, ok := c.(syscall.Conn)
	if !ok {
		return false, nil
	}
	raw, err := plain.SyscallConn()
	if err != nil {
		return true, err
	}
	n := 0
	var failure error
	err = raw.Write(func(fd uintptr) bool {
		for {
			n, failure = syscall.Write(int(fd), b)
			if failure != syscall.EINTR {
				return true
			}
		}
	})
	switch {
	case err != nil:
		return true, err
	case failure != nil && failure != syscall.EAGAIN:
		return true, failure
	case n < len(b):
		return true, errSlow
	}
	return true, nil
}
