package route

import (
	"net/http"
	"strings"
)

// maxTarget bounds the request target in bytes. RFC 9112 asks servers to take
// 8000; links of shops stay far below.
const maxTarget = 8 << 10

// Target is a request target as the gate reads it. Parse makes it.
type Target struct {
	// Raw is the target in origin form, path and query byte for byte as sent:
	// what the shop is to receive. For an absolute-form target the scheme and the
	// authority are cut off, and a missing path is "/".
	Raw string
	// Readings are the distinct paths the target may stand for, without the query.
	// The first is the path as sent; with anything to decode the second is the path
	// decoded once. Letter case is kept: rules fold it while they compare.
	Readings []string
	// Host is the host asked for: lower case, without port and trailing dot, IPv6
	// without brackets in its shortest spelling. It is empty when the request
	// names none.
	Host string
}

// Refusal says why a request is not judged at all. The shop must not see it.
type Refusal struct {
	Status int    // 400, 405 or 414
	Reason string // one line for the log and the client; never holds bytes of the request
}

// Parse reads the target, host and method of r and refuses what is not an
// ordinary request. It judges the bytes as sent (r.RequestURI), not the parsed
// r.URL, which for an opaque target such as http:http://inner/order has an empty
// path while the shop would receive all of it.
func Parse(r *http.Request) (Target, *Refusal) {
	if ref := refuseMethod(r.Method); ref != nil {
		return Target{}, ref
	}
	uri := r.RequestURI
	if len(uri) > maxTarget {
		return Target{}, &Refusal{http.StatusRequestURITooLong, "the request target is longer than 8192 bytes"}
	}
	if !strings.HasPrefix(uri, "/") {
		authority, rest, ok := cutAuthority(uri)
		if !ok {
			return Target{}, badRequest("the request target is neither a path nor an http URL")
		}
		// RFC 9112 section 3.2.2: the host of an absolute-form target replaces the
		// Host field, and net/http has done so in HTTP/1. In HTTP/2, whose paths are no
		// URLs, it has not: the shop would be told of another host than was judged.
		if authority != r.Host {
			return Target{}, badRequest("the request names two hosts")
		}
		uri = rest
	}
	host, ok := normalHost(r.Host)
	if !ok {
		return Target{}, badRequest("the host is not a name or an address")
	}
	path, query, _ := strings.Cut(uri, "?")
	if ref := refuseBytes(path, query); ref != nil {
		return Target{}, ref
	}
	all, ok := readings(path)
	if !ok {
		return Target{}, badRequest("the path can be read in too many ways")
	}
	return Target{Raw: uri, Readings: all, Host: host}, nil
}

func badRequest(reason string) *Refusal {
	return &Refusal{http.StatusBadRequest, reason}
}

// refuseMethod keeps out the methods that open tunnels or echo credentials.
// Other servers take methods without regard to case, so these are refused in
// any.
func refuseMethod(method string) *Refusal {
	switch len(method) {
	case 3:
		// The preface of HTTP/2, sent to a server that reads it as HTTP/1.
		if strings.EqualFold(method, "PRI") {
			return badRequest("PRI is not a method")
		}
	case 5, 7:
		if strings.EqualFold(method, http.MethodTrace) || strings.EqualFold(method, "TRACK") || strings.EqualFold(method, http.MethodConnect) {
			return &Refusal{http.StatusMethodNotAllowed, "CONNECT, TRACE and TRACK are not allowed"}
		}
	}
	return nil
}

// cutAuthority splits an absolute-form target. The rest starts with "/".
func cutAuthority(uri string) (authority, rest string, ok bool) {
	scheme, after, ok := strings.Cut(uri, "://")
	if !ok || !strings.EqualFold(scheme, "http") && !strings.EqualFold(scheme, "https") {
		return "", "", false
	}
	end := strings.IndexAny(after, "/?#\\")
	if end < 0 {
		end = len(after)
	}
	authority, rest = after[:end], after[end:]
	if authority == "" {
		return "", "", false
	}
	if !strings.HasPrefix(rest, "/") {
		rest = "/" + rest
	}
	return authority, rest, true
}

// refuseBytes looks for what no client sends: raw control bytes, spaces, "#";
// in the path also a raw backslash, a broken escape and an encoded control byte,
// which end a path or a log line early in one program and not in the other.
// Browsers do send raw backslashes and broken escapes in queries.
func refuseBytes(path, query string) *Refusal {
	for i := range len(query) {
		if c := query[i]; c <= ' ' || c == 0x7f || c == '#' {
			return badRequest("the query holds a space, a control byte or a raw #")
		}
	}
	for i := range len(path) {
		switch c := path[i]; {
		case c <= ' ' || c == 0x7f || c == '#' || c == '\\':
			return badRequest("the path holds a space, a control byte, a backslash or a raw #")
		case c == '%':
			b, ok := unescape(path[i:])
			if !ok {
				return badRequest("the path holds a % that is not followed by two hex digits")
			}
			if b < ' ' || b == 0x7f {
				return badRequest("the path holds an encoded control byte")
			}
		}
	}
	return nil
}
