package clientip_test

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/queuegate/queuegate/proxy/clientip"
	"github.com/stretchr/testify/require"
)

func prefixes(t testing.TB, list ...string) []netip.Prefix {
	t.Helper()
	var out []netip.Prefix
	for _, s := range list {
		p, err := netip.ParsePrefix(s)
		require.NoError(t, err)
		out = append(out, p)
	}
	return out
}

func request(peer string, lines ...string) *http.Request {
	h := http.Header{}
	for _, l := range lines {
		h.Add("X-Forwarded-For", l)
	}
	return &http.Request{RemoteAddr: peer, Header: h}
}

func TestOf(t *testing.T) {
	proxies := []string{"10.0.0.0/8", "2001:db8:1::/48"}
	tests := []struct {
		name    string
		trusted []string
		peer    string
		lines   []string
		want    string // "" is the zero Addr
	}{
		{"without trusted proxies the peer is the client", nil, "198.51.100.7:4711", nil, "198.51.100.7"},
		{"a stranger's header counts for nothing", nil, "198.51.100.7:4711", []string{"127.0.0.1"}, "198.51.100.7"},
		{"the leftmost address is what an attacker writes", proxies, "10.0.0.1:1", []string{"127.0.0.1, 9.9.9.9"}, "9.9.9.9"},
		{"an untrusted peer cannot claim an inner address", proxies, "198.51.100.7:4711", []string{"10.1.2.3"}, "198.51.100.7"},
		{"two lines are one list, the second line at the right", proxies, "10.0.0.1:1", []string{"127.0.0.1", "9.9.9.9"}, "9.9.9.9"},
		{"trusted hops are walked over, across lines", proxies, "10.0.0.1:1", []string{"127.0.0.1, 9.9.9.9", "10.0.0.3, 10.0.0.2"}, "9.9.9.9"},
		{"a chain of trusted hops alone began at its left end", proxies, "10.0.0.1:1", []string{"10.0.0.4, 10.0.0.3"}, "10.0.0.4"},
		{"a trusted peer without the header is the client", proxies, "10.0.0.1:1", nil, "10.0.0.1"},
		{"garbage ends the walk at the last trusted hop", proxies, "10.0.0.1:1", []string{"9.9.9.9, unknown, 10.0.0.3"}, "10.0.0.3"},
		{"garbage at the right end leaves the peer", proxies, "10.0.0.1:1", []string{"9.9.9.9, not-an-address"}, "10.0.0.1"},
		{"an obfuscated name is garbage", proxies, "10.0.0.1:1", []string{"9.9.9.9, _hidden"}, "10.0.0.1"},
		{"an address with a zero-padded octet is garbage", proxies, "10.0.0.1:1", []string{"9.9.9.9, 010.0.0.2"}, "10.0.0.1"},
		{"empty elements are skipped", proxies, "10.0.0.1:1", []string{"127.0.0.1, ,9.9.9.9,, ", ""}, "9.9.9.9"},
		{"a mapped peer is compared as IPv4", proxies, "[::ffff:10.0.0.1]:1", []string{"9.9.9.9"}, "9.9.9.9"},
		{"a mapped hop is compared as IPv4", proxies, "10.0.0.1:1", []string{"9.9.9.9, ::ffff:10.0.0.2"}, "9.9.9.9"},
		{"a mapped client is returned as IPv4", proxies, "10.0.0.1:1", []string{"::ffff:9.9.9.9"}, "9.9.9.9"},
		{"a mapped prefix trusts IPv4 peers", []string{"::ffff:10.0.0.0/104"}, "10.0.0.1:1", []string{"9.9.9.9"}, "9.9.9.9"},
		{"a zone is dropped before the comparison", proxies, "[2001:db8:1::1%eth0]:1", []string{"2001:db8:2::9%eth1"}, "2001:db8:2::9"},
		{"an IPv6 prefix does not trust IPv4", []string{"::/0"}, "198.51.100.7:1", []string{"9.9.9.9"}, "198.51.100.7"},
		{"host bits in a prefix do not matter", []string{"10.0.0.99/8"}, "10.0.0.1:1", []string{"9.9.9.9"}, "9.9.9.9"},
		{"one address of a prefix does not trust its neighbour", []string{"10.0.0.1/32"}, "10.0.0.2:1", []string{"9.9.9.9"}, "10.0.0.2"},
		{"a hop written with its port is read", proxies, "10.0.0.1:1", []string{"9.9.9.9:5555, 10.0.0.2:80"}, "9.9.9.9"},
		{"an IPv6 hop in brackets is read", proxies, "10.0.0.1:1", []string{"[2001:db8:2::9]"}, "2001:db8:2::9"},
		{"an IPv6 hop in brackets with its port is read", proxies, "10.0.0.1:1", []string{"[2001:db8:2::9]:443"}, "2001:db8:2::9"},
		{"an IPv4 hop in brackets is garbage", proxies, "10.0.0.1:1", []string{"[9.9.9.9]"}, "10.0.0.1"},
		{"a Unix socket peer has no address", proxies, "@", []string{"9.9.9.9"}, ""},
		{"an empty peer has no address", proxies, "", []string{"9.9.9.9"}, ""},
		{"a peer without a port has no address", proxies, "10.0.0.1", []string{"9.9.9.9"}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var want netip.Addr
			if tt.want != "" {
				want = netip.MustParseAddr(tt.want)
			}
			got := clientip.New(prefixes(t, tt.trusted...)).Of(request(tt.peer, tt.lines...))
			require.Equal(t, want, got)
		})
	}
}

func TestOfNeverReadsOtherHeaders(t *testing.T) {
	r := clientip.New(prefixes(t, "10.0.0.0/8"))
	for _, name := range []string{
		"Forwarded", "X-Real-IP", "CF-Connecting-IP", "True-Client-IP", "X-Client-IP", "X-Forwarded", "X_Forwarded_For",
	} {
		for _, value := range []string{"127.0.0.1", "for=127.0.0.1"} {
			req := request("10.0.0.1:1")
			req.Header.Set(name, value)
			require.Equal(t, netip.MustParseAddr("10.0.0.1"), r.Of(req), "%s: %s", name, value)
		}
	}
}

// One client that makes up a new address with every request stays one client.
func TestOfIsTheSameForRotatedHeaders(t *testing.T) {
	r := clientip.New(prefixes(t, "10.0.0.0/8"))
	direct, behind := map[netip.Addr]bool{}, map[netip.Addr]bool{}
	for i := range 1000 {
		forged := fmt.Sprintf("192.0.%d.%d", i/256, i%256)
		direct[r.Of(request("198.51.100.7:1", forged))] = true
		behind[r.Of(request("10.0.0.1:1", forged+", 198.51.100.7"))] = true
	}
	require.Len(t, direct, 1)
	require.Len(t, behind, 1)
}

func TestPeerTrusted(t *testing.T) {
	r := clientip.New(prefixes(t, "10.0.0.0/8"))
	require.True(t, r.PeerTrusted(request("10.0.0.1:1")))
	require.True(t, r.PeerTrusted(request("[::ffff:10.0.0.1]:1")))
	require.False(t, r.PeerTrusted(request("11.0.0.1:1", "10.0.0.1")), "the header must not make a peer trusted")
	require.False(t, r.PeerTrusted(request("@")))

	var nobody *clientip.Resolver
	require.False(t, nobody.PeerTrusted(request("10.0.0.1:1")), "a nil Resolver trusts nobody")
	require.False(t, new(clientip.Resolver).PeerTrusted(request("10.0.0.1:1")), "the zero Resolver trusts nobody")
	require.False(t, clientip.New([]netip.Prefix{{}}).PeerTrusted(request("10.0.0.1:1")), "an invalid prefix trusts nobody")
}

func TestProto(t *testing.T) {
	const trusted, stranger = "10.0.0.1:1", "198.51.100.7:1"
	tests := []struct {
		name  string
		peer  string
		tls   bool
		lines []string
		want  string
	}{
		{"a plain connection is http", stranger, false, nil, "http"},
		{"a TLS connection is https", stranger, true, nil, "https"},
		{"a TLS connection is https whatever a header says", trusted, true, []string{"http"}, "https"},
		{"a trusted proxy may say https", trusted, false, []string{"https"}, "https"},
		{"a stranger may not say https", stranger, false, []string{"https"}, "http"},
		{"the last value of a list counts", trusted, false, []string{"https, http"}, "http"},
		{"the last line counts", trusted, false, []string{"http", "http, https"}, "https"},
		{"another scheme is http", trusted, false, []string{"javascript"}, "http"},
		{"another spelling is http", trusted, false, []string{"HTTPS"}, "http"},
		{"an empty value is http", trusted, false, []string{""}, "http"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			req := request(tt.peer)
			if tt.tls {
				req.TLS = &tls.ConnectionState{}
			}
			req.Header["X-Forwarded-Proto"] = tt.lines
			require.Equal(t, tt.want, clientip.New(prefixes(t, "10.0.0.0/8")).Proto(req))
		})
	}
}

// plainly reads the chain as a person would: from the right over trusted hops, to the
// first that is not trusted, and no farther than there is sense.
func plainly(t *testing.T, peer, chain string) netip.Addr {
	trusted := prefixes(t, "10.0.0.0/8", "fd00::/8")
	within := func(a netip.Addr) bool {
		return slices.ContainsFunc(trusted, func(p netip.Prefix) bool { return p.Contains(a) })
	}
	ap, err := netip.ParseAddrPort(peer)
	if err != nil {
		return netip.Addr{}
	}
	client := ap.Addr().WithZone("").Unmap()
	hops := strings.Split(chain, ",")
	slices.Reverse(hops)
	for _, hop := range hops {
		hop = strings.Trim(hop, " \t")
		if !within(client) {
			break
		}
		if hop == "" {
			continue
		}
		at, err := netip.ParseAddr(hop)
		if err != nil {
			var with netip.AddrPort
			with, err = netip.ParseAddrPort(hop)
			at = with.Addr()
		}
		if err != nil && strings.HasPrefix(hop, "[") && strings.HasSuffix(hop, "]") {
			if at, err = netip.ParseAddr(hop[1 : len(hop)-1]); err == nil && !at.Is6() {
				break
			}
		}
		if err != nil {
			break
		}
		client = at.WithZone("").Unmap()
	}
	return client
}

func FuzzOf(f *testing.F) {
	f.Add("10.0.0.1:1", "198.51.100.7, 10.0.0.2", "10.0.0.3:443, [fd00::1]:8080")
	f.Add("10.0.0.1:1", "https", "http, https")
	f.Add("[fd00::1%eth0]:1", "::ffff:9.9.9.9", "[fd00::2%25x]")
	f.Add("10.0.0.1:1", "for=9.9.9.9;proto=https", "_hidden, 10.1.1.1")
	f.Add("@", "127.0.0.1", "")
	f.Add("198.51.100.7:1", "127.0.0.1", "9.9.9.9")
	f.Add("10.0.0.1:1", "127.0.0.1, 9.9.9.9", "unknown")
	f.Add("[::ffff:10.0.0.1]:1", ",,", "[::1]:1")
	f.Fuzz(func(t *testing.T, peer, first, second string) {
		r := clientip.New(prefixes(t, "10.0.0.0/8", "fd00::/8"))
		req := request(peer, first, second)
		got := r.Of(req)
		require.Equal(t, got.Unmap().WithZone(""), got, "one client has one spelling")
		require.Equal(t, plainly(t, peer, first+","+second), got)
		req.Header["X-Forwarded-Proto"] = []string{first, second}
		proto := r.Proto(req)
		require.Contains(t, []string{"http", "https"}, proto)
		require.True(t, proto == "http" || r.PeerTrusted(req), "a stranger's word for https")
		require.True(t, proto == "http" || strings.HasSuffix(strings.TrimRight(second, " \t"), "https"), "https by another word than the last")
		if !r.PeerTrusted(req) {
			require.Equal(t, r.Of(request(peer)), got, "an untrusted peer's header changed the answer")
			return
		}
		// Whatever a client writes to the left of what the proxy appended is ignored.
		honest := request(peer, first, second, "198.51.100.7")
		require.Equal(t, netip.MustParseAddr("198.51.100.7"), r.Of(honest))
	})
}
