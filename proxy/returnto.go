package proxy

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/queuegate/queuegate/proxy/route"
)

// maxReturn bounds a way back in bytes; a ticket holds no longer one.
const maxReturn = 1024

// safeReturn returns s when it is a path and query of this site, and "" for
// everything that a browser could take for another site or for a scheme:
// "//host", "/\host", "https:host", control characters (which browsers drop
// before they look) and paths whose dots resolve to any of these. What stands
// in the query is the shop's and is not judged.
func safeReturn(s string) string {
	if len(s) > maxReturn || !strings.HasPrefix(s, "/") {
		return ""
	}
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c >= 0x7f {
			return ""
		}
	}
	path, _, _ := strings.Cut(s, "?")
	path, _, _ = strings.Cut(path, "#")
	decoded, err := url.PathUnescape(path)
	if err != nil || strings.ContainsAny(decoded, "\\\r\n\t") || strings.Contains(decoded, "//") {
		return ""
	}
	u, err := url.Parse(s)
	if err != nil || u.IsAbs() || u.Host != "" || u.User != nil {
		return ""
	}
	return s
}

// safeBack returns s when it is a path of this site and not one of the gate's
// own, to which going back would lead in a circle.
func (x *exchange) safeBack(s string) string {
	s = safeReturn(s)
	path, _, _ := strings.Cut(s, "#")
	r := &http.Request{Method: http.MethodGet, Host: x.r.Host, RequestURI: path}
	target, refusal := route.Parse(r)
	if s == "" || refusal != nil {
		return ""
	}
	switch x.g.table.Match(r, target, x.client).Kind {
	case route.Open, route.Exempt, route.Protected:
		return s
	default:
		return ""
	}
}

// refererPath returns path and query of the page that sent r when it is one of
// this site, "" otherwise: the way back to a form that was not accepted.
func refererPath(r *http.Request) string {
	u, err := url.Parse(r.Header.Get("Referer"))
	if err != nil || !strings.EqualFold(u.Host, r.Host) || (u.Scheme != "http" && u.Scheme != "https") {
		return ""
	}
	return safeReturn(u.RequestURI())
}

// escapePath returns a configured path as it stands in a request, and "" for a
// pattern.
func escapePath(path string) string {
	if strings.Contains(path, "*") {
		return ""
	}
	return (&url.URL{Path: path}).EscapedPath()
}
