package proxy

import "encoding/binary"

// frames follows the frames of a WebSocket (RFC 6455 section 5.2) as the shop sends
// them, by their heads alone: what they say, and by which extension, does not matter.
type frames struct {
	head []byte // of a frame whose head is not complete
	left uint64 // bytes still to come of the frame's payload
	over bool   // the shop has closed, or speaks something else
}

const (
	frameFinal   = 0x80
	frameClose   = 0x8
	framePong    = 0xA
	frameMasked  = 0x80
	frameControl = 125 // the most a control frame may hold
)

// follow takes what was sent.
func (f *frames) follow(p []byte) {
	for len(p) > 0 && !f.over {
		if f.left > 0 {
			n := min(f.left, uint64(len(p)))
			f.left -= n
			p = p[n:]
			continue
		}
		f.head = append(f.head, p[0])
		p = p[1:]
		if f.begin() {
			f.head = f.head[:0]
		}
	}
}

// begin reads the head of a frame, once it is complete.
func (f *frames) begin() bool {
	if len(f.head) < 2 {
		return false
	}
	op, length := f.head[0]&0x0F, f.head[1]
	extended := map[byte]int{126: 2, 127: 8}[length]
	switch {
	case op > framePong, op > 2 && op < frameClose, length&frameMasked != 0,
		op >= frameClose && (f.head[0]&frameFinal == 0 || length > frameControl):
		f.over = true // no server sends such a frame
		return true
	case len(f.head) < 2+extended:
		return false
	}
	f.over = op == frameClose
	switch extended {
	case 2:
		f.left = uint64(binary.BigEndian.Uint16(f.head[2:]))
	case 8:
		f.left = binary.BigEndian.Uint64(f.head[2:])
	default:
		f.left = uint64(length)
	}
	return true
}

// between reports whether a frame can follow: none is half said, and the shop has not
// closed.
func (f *frames) between() bool { return !f.over && f.left == 0 && len(f.head) == 0 }

// closeFrame says that the gate ends a tunnel: 1008, what was asked for is not allowed.
func closeFrame(reason string) []byte {
	frame := []byte{frameFinal | frameClose, byte(2 + len(reason))}
	return append(binary.BigEndian.AppendUint16(frame, 1008), reason...)
}
