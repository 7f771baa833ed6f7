package route

import (
	"slices"
	"strings"
)

const (
	// maxReadings and maxReadingBytes bound the work one target can cause. Paths
	// of shops have one reading, with encoded letters two; a path that holds an
	// encoded URL has four to seven, with parameters and doubled slashes up to 14.
	maxReadings     = 64
	maxReadingBytes = 32 << 10
)

// readings returns every path that any sequence of steps makes of path, path
// itself first. It reports false when there are more than the bounds allow.
//
// It is a closure, not a list of known sequences: real servers decode before or
// after they resolve dots, cut parameters before or after they decode, and a
// chain of two servers does it all again.
func readings(path string) ([]string, bool) {
	all := []string{path}
	if marksOf(path) == 0 {
		return all, true
	}
	size, list := len(path), steps()
	for i := 0; i < len(all); i++ {
		from := all[i]
		found := marksOf(from)
		for _, step := range list {
			if found&step.needs == 0 {
				continue
			}
			next := step.apply(from)
			if next == "" {
				next = "/"
			}
			if next == from || slices.Contains(all, next) {
				continue
			}
			size += len(next)
			if len(all) == maxReadings || size > maxReadingBytes {
				return nil, false
			}
			all = append(all, next)
		}
	}
	return all, true
}

// marks are the things in a path that some step would change. A path without any
// has one reading, and the one scan that finds this is all most targets cost.
type marks uint16

const (
	percent      marks = 1 << iota
	encodedSlash       // %2F
	semicolon          // ;
	backslash          // \
	hash               // #
	question           // ?
	nul                // NUL
	tabOrBreak         // tab, line feed, carriage return
	doubleSlash        // //
	leadingDot         // a segment begins with a dot
	trailingDot        // a segment ends with a dot
	trailingGap        // a segment ends with a space or a control byte
)

func marksOf(path string) (found marks) {
	var last byte
	for i := range len(path) {
		c := path[i]
		switch c {
		case '%':
			found |= percent
			if strings.HasPrefix(path[i:], "%2f") || strings.HasPrefix(path[i:], "%2F") {
				found |= encodedSlash
			}
		case ';':
			found |= semicolon
		case '\\':
			found |= backslash
		case '#':
			found |= hash
		case '?':
			found |= question
		case 0:
			found |= nul
		case '\t', '\n', '\r':
			found |= tabOrBreak
		case '.':
			if last == '/' {
				found |= leadingDot
			}
		case '/':
			if i > 0 {
				found |= endMark(last)
			}
		}
		last = c
	}
	if last == '/' || path == "" {
		return found
	}
	return found | endMark(last)
}

// endMark tells what the last byte before a slash or the end means.
func endMark(last byte) marks {
	switch {
	case last == '/':
		return doubleSlash
	case last == '.':
		return trailingDot
	case last <= ' ' || last == 0x7f:
		return trailingGap
	}
	return 0
}

type step struct {
	needs marks // without any of these the step changes nothing
	apply func(string) string
}

// steps lists what servers do to a path. Decoding comes first so that the second
// reading is the path decoded once.
func steps() [14]step {
	return [...]step{
		{percent, decode},
		{encodedSlash, decodeExceptSlash},
		{backslash, slashes},
		{tabOrBreak, dropTabs},
		{doubleSlash, authority},
		{doubleSlash, skipAuthority},
		{doubleSlash, collapse},
		{leadingDot, resolveDots},
		{leadingDot, dotsUp},
		{semicolon, cutParams},
		{trailingGap | trailingDot, trimDots},
		{hash, cutHash},
		{question, cutQuestion},
		{nul, cutNUL},
	}
}

// decode undoes one layer of percent-encoding. Broken escapes stay as they are.
func decode(p string) string {
	return decodeWhere(p, func(byte) bool { return true })
}

// decodeExceptSlash leaves %2F alone, as servers do that route first and hand
// the encoded slash on: to them /a%2Fb/../order is /order.
func decodeExceptSlash(p string) string {
	return decodeWhere(p, func(b byte) bool { return b != '/' })
}

func decodeWhere(p string, want func(byte) bool) string {
	out := make([]byte, 0, len(p))
	for i := 0; i < len(p); i++ {
		if p[i] == '%' {
			if b, ok := unescape(p[i:]); ok && want(b) {
				out = append(out, b)
				i += 2
				continue
			}
		}
		out = append(out, p[i])
	}
	return string(out)
}

// unescape reads the escape %XX at the start of s.
func unescape(s string) (byte, bool) {
	if len(s) < 3 {
		return 0, false
	}
	hi, ok1 := hex(s[1])
	lo, ok2 := hex(s[2])
	return hi<<4 | lo, ok1 && ok2
}

func hex(c byte) (byte, bool) {
	switch {
	case '0' <= c && c <= '9':
		return c - '0', true
	case 'a' <= c && c <= 'f':
		return c - 'a' + 10, true
	case 'A' <= c && c <= 'F':
		return c - 'A' + 10, true
	}
	return 0, false
}

// slashes reads "\" as "/", as Windows and URL parsers of browsers do.
func slashes(p string) string {
	return strings.ReplaceAll(p, `\`, "/")
}

// dropTabs removes tabs and line breaks wherever they stand, as the URL Standard
// of browsers has its parsers do first of all.
func dropTabs(p string) string {
	return strings.NewReplacer("\t", "", "\n", "", "\r", "").Replace(p)
}

// authority reads a leading //name as a host, as RFC 3986 does: //x/order is the
// path /order at the host x, and ///x/order the path /x/order at a host without
// a name.
func authority(p string) string {
	after, ok := strings.CutPrefix(p, "//")
	if !ok {
		return p
	}
	if i := strings.IndexByte(after, '/'); i >= 0 {
		return after[i:]
	}
	return "/"
}

// skipAuthority reads a host as the URL Standard of browsers does, which skips
// every slash before it: to new URL(target, base), //x/order, ///x/order and
// ////x/order are all /order at the host x. User and port are part of the
// segment that goes.
func skipAuthority(p string) string {
	if !strings.HasPrefix(p, "//") {
		return p
	}
	after := strings.TrimLeft(p, "/")
	if i := strings.IndexByte(after, '/'); i >= 0 {
		return after[i:]
	}
	return "/"
}

func collapse(p string) string {
	out := make([]byte, 0, len(p))
	for i := range len(p) {
		if p[i] != '/' || i == 0 || p[i-1] != '/' {
			out = append(out, p[i])
		}
	}
	return string(out)
}

// resolveDots removes "." and ".." segments as RFC 3986 section 5.2.4 does. It
// keeps empty segments: a ".." takes away just one of them, so that collapsing
// before and after differ.
func resolveDots(p string) string {
	var out []string
	segs := strings.Split(strings.TrimPrefix(p, "/"), "/")
	for i, s := range segs {
		if s == ".." && len(out) > 0 {
			out = out[:len(out)-1]
		}
		if s != "." && s != ".." {
			out = append(out, s)
		} else if i == len(segs)-1 {
			out = append(out, "")
		}
	}
	return "/" + strings.Join(out, "/")
}

func cutParams(p string) string {
	return eachSegment(p, func(s string) string {
		s, _, _ = strings.Cut(s, ";")
		return s
	})
}

// trimDots drops trailing dots, spaces and control bytes, as Windows file names
// and programs that trim their input do, leaving the two dot segments to
// resolveDots. No rule ends a segment with any of them, so dropping the spaces
// alone would show nothing more.
func trimDots(p string) string {
	return eachSegment(p, func(s string) string {
		if s == "." || s == ".." {
			return s
		}
		return strings.TrimRight(s, "."+gaps)
	})
}

// dotsUp reads a segment of dots and gaps ("..%20", "...", ".. .") as "..".
func dotsUp(p string) string {
	return eachSegment(p, func(s string) string {
		if strings.HasPrefix(s, "..") && strings.Trim(s, "."+gaps) == "" {
			return ".."
		}
		return s
	})
}

// gaps are the space, the control bytes and DEL.
const gaps = " \x00\x01\x02\x03\x04\x05\x06\x07\x08\t\n\x0b\x0c\r\x0e\x0f" +
	"\x10\x11\x12\x13\x14\x15\x16\x17\x18\x19\x1a\x1b\x1c\x1d\x1e\x1f\x7f"

// The path ends at "#" and "?" for a server that decodes before it splits off the
// query, and at NUL for one written in C. Each is a step of its own because few
// servers know all three.
func cutHash(p string) string     { return cutAt(p, "#") }
func cutQuestion(p string) string { return cutAt(p, "?") }
func cutNUL(p string) string      { return cutAt(p, "\x00") }

func cutAt(p, mark string) string {
	p, _, _ = strings.Cut(p, mark)
	return p
}

// eachSegment applies f, which only shortens, to every segment.
func eachSegment(p string, f func(string) string) string {
	out := make([]byte, 0, len(p))
	for rest, more := p, true; more; {
		var seg string
		seg, rest, more = strings.Cut(rest, "/")
		out = append(out, f(seg)...)
		if more {
			out = append(out, '/')
		}
	}
	return string(out)
}
