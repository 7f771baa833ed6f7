package route

import (
	"net/netip"
	"strings"
)

// normalHost gives one host one spelling: SHOP.test.:8080 is shop.test. It
// reports false for text that is no host, such as user@host or a list of two,
// which two programs would read differently. An empty host is allowed here; the
// table treats it as one that cannot be told.
func normalHost(s string) (string, bool) {
	if s == "" {
		return "", true
	}
	if s[0] == '[' {
		return normalIPv6(s)
	}
	host, port, _ := strings.Cut(s, ":")
	if !digits(port) {
		return "", false
	}
	host = strings.TrimRight(host, ".")
	upper := false
	for i := range len(host) {
		switch c := host[i]; {
		case 'A' <= c && c <= 'Z':
			upper = true
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9', c == '-', c == '.', c == '_':
		case c >= 0x80:
			// An international name that was not put into its xn-- form.
			upper = true
		default:
			return "", false
		}
	}
	if upper {
		host = foldString(host)
	}
	return host, true
}

func normalIPv6(s string) (string, bool) {
	inner, port, ok := strings.Cut(s[1:], "]")
	if !ok || port != "" && (port[0] != ':' || !digits(port[1:])) {
		return "", false
	}
	addr, err := netip.ParseAddr(inner)
	if err != nil || !addr.Is6() {
		return "", false
	}
	return addr.WithZone("").Unmap().String(), true
}

func digits(s string) bool {
	return strings.Trim(s, "0123456789") == ""
}
