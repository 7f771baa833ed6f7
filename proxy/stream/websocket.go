package stream

import (
	"bufio"
	"bytes"
	"crypto/sha1"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"
)

// The parts of RFC 6455 that a stream needs: text messages and pings out, control
// frames in. What else a client says is skipped.
const (
	opText  = 0x1
	opClose = 0x8
	opPing  = 0x9
	opPong  = 0xA
	final   = 0x80

	// mostSaid bounds a frame of a client, which has nothing to say.
	mostSaid = 4096

	closeNormal    = 1000
	closeGoingAway = 1001
	closeProtocol  = 1002
	closeTooLong   = 1009
)

// handshakeGUID is what RFC 6455 has both sides add to the key.
const handshakeGUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"

// ErrHandshake is returned by AcceptKey for a request that is no WebSocket handshake
// of version 13.
var ErrHandshake = errors.New("stream: not a WebSocket handshake of version 13")

// AcceptKey returns the Sec-WebSocket-Accept that answers the handshake r.
func AcceptKey(r *http.Request) (string, error) {
	keys, versions := r.Header["Sec-Websocket-Key"], r.Header["Sec-Websocket-Version"]
	if len(keys) != 1 || len(versions) != 1 || versions[0] != "13" || !upgrades(r.Header) {
		return "", ErrHandshake
	}
	if raw, err := base64.StdEncoding.DecodeString(keys[0]); err != nil || len(raw) != 16 {
		return "", ErrHandshake
	}
	sum := sha1.Sum([]byte(keys[0] + handshakeGUID))
	return base64.StdEncoding.EncodeToString(sum[:]), nil
}

// upgrades reports whether Connection names Upgrade.
func upgrades(h http.Header) bool {
	for name := range strings.SplitSeq(strings.Join(h["Connection"], ","), ",") {
		if strings.EqualFold(strings.TrimSpace(name), "upgrade") {
			return true
		}
	}
	return false
}

// ServeWebSocket answers a handshake with accept, which AcceptKey gave, after the
// headers that w holds, and takes the connection over. It reports whether it did.
func (s *Stream) ServeWebSocket(w http.ResponseWriter, accept string, first Message) bool {
	h := w.Header()
	for _, name := range []string{"Content-Type", "Content-Length"} {
		h.Del(name)
	}
	h.Set("Upgrade", "websocket")
	h.Set("Connection", "Upgrade")
	h.Set("Sec-Websocket-Accept", accept)
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		s.Drop()
		return false
	}
	_ = conn.SetDeadline(time.Time{})
	early := said(buffered.Reader)
	socket := &socket{stream: s}
	if s.start(sinkOf(conn), socket, head(http.StatusSwitchingProtocols, h), first) {
		go socket.read(conn, early)
	}
	return true
}

// said copies what a hasty client has sent behind its handshake, so that the
// server's buffer need not be kept.
func said(r *bufio.Reader) []byte {
	b, _ := r.Peek(r.Buffered())
	return bytes.Clone(b)
}

// socket is the WebSocket form of a stream.
type socket struct {
	stream *Stream
	pings  uint32        // sent so far
	asked  atomic.Uint32 // the ping that waits for its answer, 0 when none does
}

// append writes a message as text: its data with the event as "type". A ping goes
// before the message of that name, and a close frame behind the last one.
func (s *socket) append(dst []byte, m Message) []byte {
	if m.Event == Ping {
		s.pings = max(s.pings+1, 1)
		s.asked.Store(s.pings)
		dst = append(dst, final|opPing, 4)
		dst = binary.BigEndian.AppendUint32(dst, s.pings)
	}
	text := `{"type":"` + string(m.Event) + `",`
	dst = appendHead(dst, opText, len(text)+len(m.Data)-1)
	dst = append(dst, text...)
	dst = append(dst, m.Data[1:]...)
	if !m.Last {
		return dst
	}
	if m.After > 0 {
		return appendClose(dst, closeGoingAway)
	}
	return appendClose(dst, closeNormal)
}

func appendHead(dst []byte, op byte, n int) []byte {
	switch {
	case n < 126:
		return append(dst, final|op, byte(n))
	case n < 1<<16:
		return binary.BigEndian.AppendUint16(append(dst, final|op, 126), uint16(n))
	default:
		return binary.BigEndian.AppendUint64(append(dst, final|op, 127), uint64(n))
	}
}

func appendClose(dst []byte, code uint16) []byte {
	return binary.BigEndian.AppendUint16(append(dst, final|opClose, 2), code)
}

// read takes what the client says until the connection ends.
func (s *socket) read(conn net.Conn, early []byte) {
	var from io.Reader = conn
	if len(early) > 0 {
		from = io.MultiReader(bytes.NewReader(early), conn)
	}
	// One small buffer for a connection that mostly says nothing.
	buffer := make([]byte, 2+8+4+125)
	for {
		code, err := s.frame(from, buffer)
		if err != nil {
			code = 0
		}
		if code == 0 && err == nil {
			continue
		}
		s.stream.mu.Lock()
		if code != 0 {
			s.stream.write(appendClose(nil, code))
		}
		s.stream.mu.Unlock()
		s.stream.end(code != 0)
		return
	}
}

// frame reads one frame. code is what to close with, 0 to go on.
func (s *socket) frame(from io.Reader, b []byte) (code uint16, err error) {
	if _, err := io.ReadFull(from, b[:2]); err != nil {
		return 0, err
	}
	op, masked, n := b[0]&0x0f, b[1]&0x80 != 0, int64(b[1]&0x7f)
	if !masked || b[0]&0x70 != 0 || op >= opClose && (n > 125 || b[0]&final == 0) {
		return closeProtocol, nil
	}
	if n >= 126 {
		wide := 2
		if n == 127 {
			wide = 8
		}
		if _, err := io.ReadFull(from, b[:wide]); err != nil {
			return 0, err
		}
		n = 0
		for _, c := range b[:wide] {
			n = n<<8 | int64(c)
		}
		if n < 0 || n > mostSaid {
			return closeTooLong, nil
		}
	}
	if _, err := io.ReadFull(from, b[:4]); err != nil {
		return 0, err
	}
	if op < opClose {
		_, err := io.CopyN(io.Discard, from, n)
		return 0, err
	}
	mask, payload := [4]byte(b[:4]), b[4:4+n]
	if _, err := io.ReadFull(from, payload); err != nil {
		return 0, err
	}
	for i := range payload {
		payload[i] ^= mask[i%4]
	}
	return s.control(op, payload), nil
}

// control acts on a control frame.
func (s *socket) control(op byte, payload []byte) (code uint16) {
	switch op {
	case opClose:
		return closeNormal
	case opPing:
		s.stream.mu.Lock()
		defer s.stream.mu.Unlock()
		s.stream.write(append([]byte{final | opPong, byte(len(payload))}, payload...))
	case opPong:
		// Only the answer to the last ping counts, and it once: who sends pongs
		// unasked proves nothing.
		if len(payload) != 4 {
			return 0
		}
		if n := binary.BigEndian.Uint32(payload); n != 0 && s.asked.CompareAndSwap(n, 0) {
			s.stream.follower.Heard()
		}
	default:
		return closeProtocol
	}
	return 0
}
