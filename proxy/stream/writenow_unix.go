//go:build unix

package stream

import (
	"net"
	"syscall"
)

// nowSink is a plain connection. It is written to if the kernel takes all at once, and
// else given up: nobody waits for one slow reader.
type nowSink struct {
	conn net.Conn
	raw  syscall.RawConn
	call func(fd uintptr) bool // s.system, made once

	// Of the write under way.
	b   []byte
	n   int
	err error
}

func newNowSink(c net.Conn) (sink, bool) {
	plain, ok := c.(syscall.Conn)
	if !ok {
		return nil, false
	}
	raw, err := plain.SyscallConn()
	if err != nil {
		return nil, false
	}
	s := &nowSink{conn: c, raw: raw}
	s.call = s.system
	return s, true
}

func (s *nowSink) write(b []byte) error {
	s.b, s.n, s.err = b, 0, nil
	err := s.raw.Write(s.call)
	s.b = nil
	switch {
	case err != nil:
		return err
	case s.err != nil && s.err != syscall.EAGAIN:
		return s.err
	case s.n < len(b):
		return errSlow
	}
	return nil
}

// system asks the kernel once, and never to be called again when it can take more.
func (s *nowSink) system(fd uintptr) bool {
	for {
		s.n, s.err = syscall.Write(int(fd), s.b)
		if s.err != syscall.EINTR {
			return true
		}
	}
}

func (s *nowSink) close(said bool) { end(s.conn, said) }
