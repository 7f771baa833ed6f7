package proxy_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/queuegate/queuegate/proxy"
	"github.com/queuegate/queuegate/queue"
	"github.com/queuegate/queuegate/token"
)

// lives gives a visitor a stay at a place, active by an admission.
func (b *bench) lives(visitor string, place int64, admission string) {
	b.line.change(func() {
		end := b.line.now.Add(time.Minute)
		b.line.stays[visitor] = &stay{place: place, state: queue.Active, lease: queue.Lease{
			Admission: admission, Place: place, End: end.UnixMilli(), Until: end,
		}}
	})
}

// nothingOf asserts that an answer has neither pass nor ticket of what the visitor
// was given after place 7 and its first admission.
func (b *bench) nothingOf(got reply, visitor string) {
	b.t.Helper()
	tokens, tickets := got.Header.Values("X-Entry-Token"), got.Header.Values("X-Queue-Ticket")
	for _, c := range got.Cookies() {
		tokens, tickets = append(tokens, c.Value), append(tickets, c.Value)
	}
	if got.Header.Get("Content-Type") == "application/json" {
		d := got.doc(b.t)
		for name, list := range map[string]*[]string{"entry_token": &tokens, "ticket": &tickets} {
			if text, ok := d[name].(string); ok {
				*list = append(*list, text)
			}
		}
	}
	for _, raw := range tokens {
		if p, err := b.passes.Verify(raw, "sale"); err == nil {
			require.False(b.t, p.Visitor == visitor && p.Admission != "old" && p.Admission != "first", "the pass of the later admission")
		}
	}
	for _, raw := range tickets {
		if k, err := b.tickets.Open("sale", raw); err == nil {
			require.False(b.t, k.Visitor == visitor && k.Place > 7, "a ticket of the later stay")
		}
	}
}

// A stay ended so long ago that nobody remembers, and its visitor is inside again.
// Whoever still has the pass or the ticket of then gets nothing of the new stay, by
// whatever question.
func TestOldPassOrTicketGetsNothingOfALaterStay(t *testing.T) {
	past := func(b *bench, visitor string, stage token.Stage) string {
		return "X-Entry-Token: " + b.pass(func(p *token.Pass) {
			p.Visitor, p.Place, p.Admission, p.Stage = visitor, 7, "old", stage
			p.IssuedAt, p.End, p.Expires = b.line.now.Add(-2*time.Hour), b.line.now.Add(-time.Hour).UnixMilli(), b.line.now.Add(-time.Hour)
		})
	}
	living := func(change func(*token.Pass)) func(*bench, string) []string {
		return func(b *bench, visitor string) []string {
			return []string{"X-Entry-Token: " + b.pass(func(p *token.Pass) {
				p.Visitor, p.Place, p.Admission = visitor, 7, "old"
				change(p)
			})}
		}
	}
	old := func(b *bench, visitor string) string { return with(b.tickets.Seal("sale", ticketOf(visitor, 7))) }
	for name, shows := range map[string]func(b *bench, visitor string) []string{
		"an active pass past its end":      func(b *bench, v string) []string { return []string{past(b, v, token.Active)} },
		"a ready pass past its end":        func(b *bench, v string) []string { return []string{past(b, v, token.Ready)} },
		"a ticket":                         func(b *bench, v string) []string { return []string{old(b, v)} },
		"a pass and a ticket":              func(b *bench, v string) []string { return []string{past(b, v, token.Active), old(b, v)} },
		"a ready pass":                     living(func(p *token.Pass) { p.Stage = token.Ready }),
		"a pass that is due to be renewed": living(func(p *token.Pass) { p.IssuedAt = p.IssuedAt.Add(-time.Hour) }),
		"a pass of a lost epoch":           living(func(p *token.Pass) { p.Epoch = 0 }),
	} {
		for _, question := range []struct{ method, target string }{
			{"GET", "/order"}, {"POST", "/order"}, {"POST", "/order/pay"}, {"GET", "/_queue/sale/status"}, {"POST", "/_queue/sale/join"},
			{"GET", "/_queue/sale"}, {"GET", "/_queue/sale/events"},
		} {
			t.Run(name+", "+question.method+" "+question.target, func(t *testing.T) {
				b := newBench(t, consuming)
				visitor := newVisitor()
				b.lives(visitor, 9, "new")
				b.fill()
				before := len(b.shop.requests())
				b.nothingOf(b.call(question.method, question.target, "", shows(b, visitor)...), visitor)
				b.nothingOf(b.navigate(question.target, shows(b, visitor)...), visitor)
				for _, r := range b.shop.requests()[before:] {
					require.NotEqual(t, []string{"new"}, r.header["X-Queuegate-Admission"], "let in by the later one")
				}
			})
		}
	}
}

// The same stay, admitted again after its pass lapsed: the ticket is its proof, the
// pass of before is none.
func TestPassThatLapsedGetsNothingOfTheNextAdmission(t *testing.T) {
	b := newBench(t)
	visitor := newVisitor()
	lapsed := "X-Entry-Token: " + b.pass(func(p *token.Pass) {
		p.Visitor, p.Place, p.Admission, p.Stage, p.End = visitor, 7, "first", token.Ready, b.line.now.UnixMilli()-1
	})
	ticket := with(b.tickets.Seal("sale", ticketOf(visitor, 7)))
	b.lives(visitor, 7, "second")
	b.fill()
	for _, target := range []string{"/order", "/_queue/sale/status", "/_queue/sale"} {
		b.nothingOf(b.call("GET", target, "", lapsed), visitor)
	}
	require.Equal(t, "expired", b.call("GET", "/_queue/sale/status", "", lapsed).doc(t)["status"])
	for _, shown := range [][]string{{ticket}, {ticket, lapsed}} {
		require.Equal(t, "active", b.call("GET", "/_queue/sale/status", "", shown...).doc(t)["status"])
		got := b.call("GET", "/order", "", shown...)
		require.Equal(t, 200, got.StatusCode)
		p, err := b.passes.Verify(got.Header.Get("X-Entry-Token"), "sale")
		require.NoError(t, err)
		require.Equal(t, "second", p.Admission)
	}
}

// What the same rule must not cost anybody: their own admission, however they ask.
func TestDeadTokenOfALivingAdmissionIsExchanged(t *testing.T) {
	for name, with := range map[string]bool{"alone": false, "with the ticket of its stay": true} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, func(o *proxy.Options) { o.Rooms[0].Consume = proxy.Consume{} })
			visitor := newVisitor()
			shown := []string{"X-Entry-Token: " + b.pass(func(p *token.Pass) {
				p.Visitor, p.Place, p.Admission, p.End = visitor, 7, "own", b.line.now.UnixMilli()-1
			})}
			if with {
				shown = append(shown, "X-Queue-Ticket: "+b.tickets.Seal("sale", ticketOf(visitor, 7)))
			}
			b.lives(visitor, 7, "own")
			b.fill()
			for range 2 { // an answer that was lost is given again
				for _, target := range []string{"/order", "/_queue/sale/status"} {
					got := b.call("GET", target, "", shown...)
					require.Equal(t, http.StatusOK, got.StatusCode)
					p, err := b.passes.Verify(got.Header.Get("X-Entry-Token"), "sale")
					require.NoError(t, err, target)
					require.Equal(t, "own", p.Admission)
				}
			}
		})
	}
}
