package proxy

import (
	"net/http"
	"strconv"
	"strings"
)

// caller is what kind of program sent a request, as far as the answer of the
// gate depends on it.
type caller int

const (
	// script reads JSON: a call of a page's script or of an app, and whoever does
	// not say what it is.
	script caller = iota
	// navigation is a person opening a page or sending a form.
	navigation
	// socket is a WebSocket handshake, whose refusal no page can read.
	socket
	// passive is a request nobody waits for the answer of: a prefetch, a HEAD, or
	// what a page loads by itself. It gets no place and takes up no pass.
	passive
)

// subresources are the values of Sec-Fetch-Dest with which a browser loads
// parts of a page. Frames are missing: a person looks at them.
var subresources = map[string]bool{
	"audio": true, "audioworklet": true, "font": true, "image": true, "json": true, "manifest": true,
	"paintworklet": true, "report": true, "script": true, "serviceworker": true, "sharedworker": true,
	"style": true, "track": true, "video": true, "worker": true, "xslt": true,
}

// callerOf tells what kind of program sent r. Browsers of the last years say it
// in Sec-Fetch-*; for all others Accept decides.
func callerOf(r *http.Request) caller {
	h := r.Header
	switch {
	case r.Method == http.MethodHead, isPrefetch(h), subresources[strings.ToLower(h.Get("Sec-Fetch-Dest"))]:
		return passive
	case isWebSocket(r):
		return socket
	}
	switch mode := strings.ToLower(h.Get("Sec-Fetch-Mode")); {
	case mode == "websocket": // front proxies that ask do not hand Upgrade on
		return socket
	case mode == "navigate":
		return navigation
	case mode != "", h.Get("X-Requested-With") != "":
		return script
	}
	switch preferred(h.Values("Accept")) {
	case wantsPage:
		return navigation
	case wantsAsset:
		return passive
	default:
		return script
	}
}

// isPrefetch reports whether a browser asks ahead of its user. The older names
// mean the same.
func isPrefetch(h http.Header) bool {
	for _, name := range []string{"Sec-Purpose", "Purpose", "X-Purpose", "X-Moz"} {
		if _, any := h[name]; !any {
			continue
		}
		v := strings.ToLower(h.Get(name))
		if strings.Contains(v, "prefetch") || strings.Contains(v, "preview") || strings.Contains(v, "prerender") {
			return true
		}
	}
	return false
}

// wish is what an Accept header prefers.
type wish int

const (
	wantsData  wish = iota // JSON, anything, or nothing said
	wantsPage              // HTML, named and not behind JSON
	wantsAsset             // only images, fonts, styles and the like are named
)

// preferred reads the Accept lines. HTML must be named to win: "*/*" is what
// curl and apps send. Of equal qualities the first named wins.
func preferred(lines []string) wish {
	var page, data float64
	asset, other, pageFirst := false, false, false
	for part := range strings.SplitSeq(strings.Join(lines, ","), ",") {
		mediaType, parameters, _ := strings.Cut(part, ";")
		mediaType = strings.ToLower(strings.TrimSpace(mediaType))
		q := quality(parameters)
		switch {
		case mediaType == "" || q == 0:
		case mediaType == "text/html", mediaType == "application/xhtml+xml":
			pageFirst = pageFirst || data == 0
			page = max(page, q)
		case mediaType == "application/json", strings.HasSuffix(mediaType, "+json"):
			data = max(data, q)
		case mediaType == "text/css", strings.HasPrefix(mediaType, "image/"), strings.HasPrefix(mediaType, "font/"),
			strings.HasPrefix(mediaType, "audio/"), strings.HasPrefix(mediaType, "video/"):
			asset = true
		case mediaType != "*/*":
			other = true
		}
	}
	switch {
	case page > data, page > 0 && page == data && pageFirst:
		return wantsPage
	case asset && data == 0 && page == 0 && !other:
		return wantsAsset
	default:
		return wantsData
	}
}

// quality reads q from the parameters of a media range: 1 when there is none,
// 0 when it is not a number from 0 to 1.
func quality(parameters string) float64 {
	for p := range strings.SplitSeq(parameters, ";") {
		name, value, _ := strings.Cut(p, "=")
		if !strings.EqualFold(strings.TrimSpace(name), "q") {
			continue
		}
		q, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
		if err != nil || !(q >= 0 && q <= 1) {
			return 0
		}
		return q
	}
	return 1
}
