package main

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// cables are the kept-alive connections of a crowd, which one goroutine asks and
// hears over: it writes to those that are free and asks the kernel, when it likes,
// which of the others have something to read. Nobody is woken for an answer, nothing
// waits in a system call: a goroutine and a timer for each connection took twice as
// much of the processors, which the gate shares.
type cables struct {
	host   string
	to     *syscall.SockaddrInet4
	most   int
	poll   int              // descriptor of epoll
	open   map[int32]*cable // by descriptor
	free   []*cable         // the last used is taken first: what it needs is in the caches, at both ends
	events []syscall.EpollEvent
}

// cable is one of them. At most one request is under way on it, as with a browser.
type cable struct {
	fd     int32
	who    int32 // who asks
	what   errand
	asking bool          // a request is under way
	sent   time.Duration // when, on the asker's clock
	in     []byte        // what came of the answer so far
}

// errand is what somebody asks for.
type errand int8

const (
	toJoin errand = iota
	toPoll
	toEnter
)

// gone is the descriptor of a connection that has ended.
const gone = -1

// answerMost is how long an answer may be, head and all.
const answerMost = 16 << 10

func newCables(url string, most int) (*cables, error) {
	host := strings.TrimPrefix(url, "http://")
	at, err := netip.ParseAddrPort(host)
	if err != nil {
		return nil, err
	}
	poll, err := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("epoll: %w", err)
	}
	return &cables{
		host: host, to: &syscall.SockaddrInet4{Port: int(at.Port()), Addr: at.Addr().As4()}, most: most,
		poll: poll, open: map[int32]*cable{}, events: make([]syscall.EpollEvent, most),
	}, nil
}

// take returns a free cable, nil when all are busy.
func (s *cables) take() (*cable, error) {
	if last := len(s.free) - 1; last >= 0 {
		c := s.free[last]
		s.free = s.free[:last]
		return c, nil
	}
	if len(s.open) >= s.most {
		return nil, nil
	}
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("socket: %w", err)
	}
	c := &cable{fd: int32(fd), in: make([]byte, 0, answerMost)} //nolint:gosec // descriptors are small
	s.open[c.fd] = c
	if err := syscall.Connect(fd, s.to); err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	return c, errors.Join(
		syscall.SetsockoptInt(fd, syscall.IPPROTO_TCP, syscall.TCP_NODELAY, 1), syscall.SetNonblock(fd, true),
		syscall.EpollCtl(s.poll, syscall.EPOLL_CTL_ADD, fd, &syscall.EpollEvent{Events: syscall.EPOLLIN, Fd: c.fd}),
	)
}

// ask sends a request over a cable that was taken, and reports whether it went out;
// if not the other end has hung up, and the cable is gone.
func (s *cables) ask(c *cable, request []byte) bool {
	n, err := syscall.Write(int(c.fd), request)
	if c.asking = err == nil && n == len(request); !c.asking {
		s.hangUp(c)
	}
	return c.asking
}

// hear hands over each answer that has come, or nil when the other end hung up
// instead. Who hears may ask again over the same cable; else it is free.
func (s *cables) hear(heard func(c *cable, h *heard) error) error {
	n, err := syscall.EpollWait(s.poll, s.events, 0)
	if err != nil && !errors.Is(err, syscall.EINTR) {
		return fmt.Errorf("epoll: %w", err)
	}
	for _, event := range s.events[:max(0, n)] {
		c := s.open[event.Fd]
		h, err := c.read()
		switch {
		case errors.Is(err, errHungUp):
			s.hangUp(c)
			if !c.asking {
				s.free = slices.DeleteFunc(s.free, func(free *cable) bool { return free == c })
				continue
			}
		case err != nil:
			return err
		case h == nil:
			continue
		}
		c.asking = false
		if err := heard(c, h); err != nil {
			return err
		}
		if c.fd != gone && !c.asking {
			s.free = append(s.free, c)
		}
	}
	return nil
}

// errHungUp is what read returns when the other end has closed the connection
// before it answered.
var errHungUp = errors.New("hung up")

// read returns the answer when all of it is there, nil before.
func (c *cable) read() (*heard, error) {
	n, err := syscall.Read(int(c.fd), c.in[len(c.in):cap(c.in)])
	switch {
	case errors.Is(err, syscall.EAGAIN):
		return nil, nil
	case len(c.in) == 0 && (n == 0 || errors.Is(err, syscall.ECONNRESET)):
		return nil, errHungUp
	case err != nil:
		return nil, fmt.Errorf("read: %w", err)
	case n == 0:
		return nil, fmt.Errorf("the answer breaks off: %q", c.in)
	}
	c.in = c.in[:len(c.in)+n]
	h, err := parse(c.in)
	if h != nil {
		c.in = c.in[:0]
	} else if err == nil && len(c.in) == cap(c.in) {
		err = errors.New("an answer too long")
	}
	return h, err
}

// parse reads an answer, which must tell its length; nil while something is missing.
func parse(in []byte) (*heard, error) {
	end := bytes.Index(in, []byte("\r\n\r\n"))
	if end < 0 {
		return nil, nil
	}
	h := &heard{head: in[:end+2], body: in[end+4:]}
	if end < len("HTTP/1.1 200") {
		return nil, fmt.Errorf("not an answer: %q", in)
	}
	length, err := strconv.Atoi(h.get("Content-Length"))
	if err == nil {
		h.code, err = strconv.Atoi(string(h.head[9:12]))
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("an answer without code or length: %q", h.head)
	case len(h.body) < length:
		return nil, nil
	case len(h.body) > length:
		return nil, fmt.Errorf("more than one answer: %q", in)
	}
	return h, nil
}

func (s *cables) hangUp(c *cable) {
	delete(s.open, c.fd)
	_ = syscall.Close(int(c.fd))
	c.fd = gone
}

// close ends all connections.
func (s *cables) close() {
	for _, c := range s.open {
		s.hangUp(c)
	}
	_ = syscall.Close(s.poll)
}
