package proxy

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// frame is one of a server.
func frame(first byte, payload string) []byte {
	head := []byte{first}
	switch n := len(payload); {
	case n < 126:
		head = append(head, byte(n))
	case n < 1<<16:
		head = binary.BigEndian.AppendUint16(append(head, 126), uint16(n))
	default:
		head = binary.BigEndian.AppendUint64(append(head, 127), uint64(n))
	}
	return append(head, payload...)
}

func TestFramesAreFollowedHoweverTheyAreCut(t *testing.T) {
	text, long, longer := frame(0x81, "hello"), frame(0x82, strings.Repeat("\x88", 300)), frame(0xC1, strings.Repeat("\x00", 1<<16))
	for name, tc := range map[string]struct {
		said    []byte
		between bool
	}{
		"nothing":                          {nil, true},
		"a text":                           {text, true},
		"an empty one":                     {frame(0x81, ""), true},
		"long ones of two kinds":           {append(bytes.Clone(long), longer...), true},
		"a ping between two fragments":     {bytes.Join([][]byte{frame(0x01, "he"), frame(0x89, "?")}, nil), true},
		"half a head":                      {text[:1], false},
		"half a long head":                 {longer[:9], false},
		"a head alone":                     {text[:2], false},
		"all but the last byte":            {append(bytes.Clone(text), longer[:len(longer)-1]...), false},
		"a close":                          {append(bytes.Clone(text), frame(0x88, "\x03\xe8")...), false},
		"a frame that is masked":           {[]byte{0x81, 0x85, 1, 2, 3, 4, 5, 6, 7, 8, 9}, false},
		"a code that means nothing":        {frame(0x83, "x"), false},
		"a control frame that is too long": {frame(0x89, strings.Repeat("x", 126)), false},
		"a control frame in parts":         {frame(0x09, "x"), false},
		"another protocol":                 {[]byte("hello\n"), false},
	} {
		t.Run(name, func(t *testing.T) {
			for _, size := range []int{1, 2, 3, 7, 4096, 1 << 20} {
				var f frames
				for rest := tc.said; len(rest) > 0; {
					n := min(size, len(rest))
					f.follow(rest[:n])
					rest = rest[n:]
				}
				require.Equal(t, tc.between, f.between(), "in pieces of %d", size)
			}
		})
	}
}
