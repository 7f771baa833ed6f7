package route_test

import (
	"net/netip"
	"testing"

	"github.com/queuegate/queuegate/proxy/route"
	"github.com/stretchr/testify/require"
)

// An order that is not seen as one could use a pass for ever; so in doubt a
// request is an order.
func TestMatchConsumes(t *testing.T) {
	pay := route.Rule{Paths: []string{"/order/pay"}, Methods: []string{"POST"}}
	hosted := route.Rule{Paths: []string{"/order/gift"}, Hosts: []string{"shop.test"}}
	tab := table(t,
		route.Room{
			Name: "sale", Protect: append(paths("/order"), route.Rule{Paths: []string{"/order/gift"}, Hosts: []string{"shop.test", "b.test"}}),
			Exempt: []route.Rule{{Paths: []string{"/order/pay/callback"}}}, Consume: []route.Rule{pay, hosted},
		},
		route.Room{Name: "drop", Protect: paths("/drop")},
	)
	for _, tt := range []struct {
		name, head string
		want       bool
	}{
		{"the order itself", "POST /order/pay", true},
		{"below it", "POST /order/pay/now", true},
		{"the method in another case", "post /order/pay", true},
		{"the path in another case", "POST /ORDER/Pay", true},
		{"an encoded spelling", "POST /order/%70ay", true},
		{"a spelling that leads there", "POST /x/..//order/pay", true},
		{"a spelling that only some servers lead there", "POST /order/x%2f..%2fpay", true},
		{"another method that may be read as POST", "GET /order/pay\tX-HTTP-Method-Override: POST", true},
		{"whatever it says of itself", "POST /order/pay\tSec-Purpose: prefetch", true},
		{"looking at it", "GET /order/pay", false},
		{"another path of the room", "POST /order", false},
		{"a longer word", "POST /order/payment", false},
		{"an exempt callback", "POST /order/pay/callback", false},
		{"another room", "POST /drop/order/pay", false},
		{"an open path", "POST /pay", false},
		{"by its host", "GET /order/gift", true},
		{"by a host nobody knows", "GET /order/gift\tHost: evil.test", true},
		{"by no host", "GET /order/gift\tHost:: ", true},
		{"by another host of the shop", "GET /order/gift\tHost: b.test", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := request(tt.head)
			target, refusal := route.Parse(r)
			require.Nil(t, refusal)
			require.Equal(t, tt.want, tab.Match(r, target, noClient).Consumes)
		})
	}
}

func TestConsumeRuleThatCanNeverMatchIsAnError(t *testing.T) {
	for want, rule := range map[string]route.Rule{
		`rooms[0].consume[0].paths[0]: "/pay" can never match: the room protects nothing there`: {Paths: []string{"/pay"}},
		`rooms[0].consume[0].paths: is empty; name the paths of the orders`:                     {Methods: []string{"POST"}},
		`rooms[0].consume[0].cidrs: has no place in a consume rule: an order is one from anywhere`: {
			Paths: []string{"/order"}, CIDRs: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")},
		},
	} {
		_, err := route.NewTable("/_queue", []route.Room{{Name: "sale", Protect: paths("/order"), Consume: []route.Rule{rule}}})
		require.ErrorContains(t, err, want)
	}
}
