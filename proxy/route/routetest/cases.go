// Package routetest holds the request targets by which people have walked around
// gates, and those that a gate must leave alone. Tests of every layer use them.
package routetest

import (
	"net/http"
	"net/url"
	"strings"
)

// What a table with the room sale on /order and the room drop on /drop says of a
// case, and of one refused before it is judged.
const (
	BadRequest = "Bad Request"
	NotAllowed = "Method Not Allowed"
	InSale     = "protected sale"
	Open       = "open"
)

// Case is a request and what is to be said of it.
type Case struct {
	// Name is what the case guards.
	Name string
	// Head is the request as Request and Raw read it.
	Head string
	Want string
}

// Request builds what net/http hands to a handler. The head is
// "METHOD target [Name: value]...", separated by tabs after the target. The host
// of an absolute target takes the place of the field, as in HTTP/1.
func Request(head string) *http.Request {
	line, fields, _ := strings.Cut(head, "\t")
	method, target, _ := strings.Cut(line, " ")
	r := &http.Request{Method: method, RequestURI: target, Host: "shop.test", Header: http.Header{}}
	for f := range strings.SplitSeq(fields, "\t") {
		name, value, _ := strings.Cut(f, ": ")
		switch name {
		case "":
		case "Host":
			r.Host = value
		case "Host:":
			r.Host = ""
		case "Content-Length":
			r.ContentLength = int64(len(value))
		case "Transfer-Encoding":
			r.TransferEncoding = []string{value}
		default:
			r.Header.Add(name, value)
		}
	}
	if u, err := url.ParseRequestURI(target); err == nil && u.Host != "" {
		r.Host = u.Host
	}
	return r
}

// Raw is the request as it goes over the wire; its connection ends with it. What a
// head says of a body comes with one.
func Raw(head string) string {
	line, fields, _ := strings.Cut(head, "\t")
	text, host, body := line+" HTTP/1.1\r\n", "Host: shop.test\r\n", ""
	for f := range strings.SplitSeq(fields, "\t") {
		name, value, _ := strings.Cut(f, ": ")
		switch name {
		case "":
		case "Host":
			host = f + "\r\n"
		case "Host:":
			host = "Host: \r\n"
		case "Content-Length":
			body = value
			text += f + "\r\n"
		case "Transfer-Encoding":
			body = "1\r\nx\r\n0\r\n\r\n"
			text += f + "\r\n"
		default:
			text += f + "\r\n"
		}
	}
	if !strings.Contains(text, "Connection:") {
		text += "Connection: close\r\n"
	}
	return text + host + "\r\n" + body
}

// Spellings are targets alone, the seeds of fuzzing.
func Spellings() []string {
	return []string{
		"/order", "http:http://internal-vhost/order", "http:order", "http:%2forder", "/static/../order", "/./order", "/order/../order",
		"/static/%2e%2e/order", "/static/%2E./order", "//order", "///order", "/x//../order", "/static%2f..%2forder", "/order%2f", "%2Forder",
		"/static/..;/order", "/static/..;x=1/order", "/order;jsessionid=1", "/order;/x", "/ORDER", "/Order/1", "/%4FRDER", "/order?x=/static/",
		"/order#/static/x", "/static/x#/../../order", "http://other.test/order", "/order.", "/order%20", "/order%00", "/order%0a", "/order%09",
		"/order..", `/static\..\order`, "/static/%5c..%5corder", "/static/%252e%252e/order", "/%256frder", "/%6frder", "/healthz/../order",
		"/orderly", "/order-help", "/files/a%2Fb", "/p/%EC%A3%BC%EB%AC%B8", "/a;v=1/b", "/x?q=100%", "/api%2e/order", "/order/x.css", "/order;.css",
		"/order%3f.css", "/order%23", "/order%3fz", "/_queue/status", "/__QUEUE/../order", "//evil.test/order", "/a%2fb/%2e%2e/order",
		"/static/.../order", "/static/..%20/order", "/static/..%20./order", "/%25%36%66rder", "/%2525256frder", "/order%2500", "/a%3b/..%2f;/order",
		"///x/order", "///x:80/order", "///u:p@x:80/order/pay", "////x/order", "/////x/order", "/%5Cx/order", "/%5C/x/order", "//%5C/x/order",
		"/%2F%2Fx/order", "/.///x/order", "///x/%2e%2e/order", "/or%2509der", "/%2509/x/order", "///x/x/..;/order",
	}
}
