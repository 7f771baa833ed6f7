package proxy

import (
	"context"
	"errors"
	"strings"

	"github.com/queuegate/queuegate/queue"
	"github.com/queuegate/queuegate/token"
)

// maxName bounds, in bytes, what a header names somebody by.
const maxName = 256

// Identity says where a room finds the shop's own name for a visitor. Who has a
// name has one place in the room, whatever browsers show it. Who has none that
// can be verified is anonymous, which is never an error.
type Identity struct {
	// Header carries the name, 1 to 256 visible ASCII characters. It is believed
	// only from a peer in Options.TrustedProxies, and only alone.
	Header string
	// Token verifies tokens of the shop; nil: none are looked at. They are found
	// in the cookie Cookie or in the header TokenHeader, where Authorization holds
	// them behind "Bearer " and any other header bare. Header goes first.
	Token               *token.Identity
	Cookie, TokenHeader string
}

// inUse reports whether anybody can have a name.
func (i *Identity) inUse() bool { return i.Header != "" || i.Token != nil }

func (i Identity) validate(trusted bool) error {
	var errs []error
	if i.Header != "" && !trusted {
		errs = append(errs, errors.New("Identity.Header needs TrustedProxies: anybody could write it"))
	}
	if (i.Token == nil) != (i.Cookie == "" && i.TokenHeader == "") {
		errs = append(errs, errors.New("Identity.Token and Cookie or TokenHeader, where it is found, need each other"))
	}
	return errors.Join(errs...)
}

// identify returns the visitor id of the person whose name the request proves,
// "" when it proves none.
func (x *exchange) identify() string {
	id := &x.room.Identity
	if !id.inUse() {
		return ""
	}
	if values := x.r.Header.Values(id.Header); id.Header != "" && len(values) == 1 && validName(values[0]) && x.g.clients.PeerTrusted(x.r) {
		return token.VisitorFromKey(x.g.secret, x.room.Name, "header", values[0])
	}
	if id.Token == nil {
		return ""
	}
	for _, raw := range x.shopTokens() {
		if name, ok := id.Token.Subject(raw, x.g.now()); ok {
			return token.VisitorFromKey(x.g.secret, x.room.Name, id.Token.Kind(), name)
		}
	}
	return ""
}

// shopTokens returns what may be a token of the shop.
func (x *exchange) shopTokens() []string {
	id := x.room.Identity
	var found []string
	if values, ok := single(x.r.Header.Values(id.TokenHeader)); id.TokenHeader != "" && ok {
		for _, value := range values {
			if strings.EqualFold(id.TokenHeader, "Authorization") {
				scheme, rest, _ := strings.Cut(value, " ")
				if !strings.EqualFold(scheme, "Bearer") {
					continue
				}
				value = strings.TrimLeft(rest, " ")
			}
			found = append(found, value)
		}
	}
	if id.Cookie != "" {
		for i, c := range x.r.CookiesNamed(id.Cookie) {
			if i == maxTwins {
				break
			}
			found = append(found, c.Value)
		}
	}
	return found
}

// validName reports whether name is 1 to 256 visible ASCII characters.
func validName(name string) bool {
	for i := range len(name) {
		if name[i] <= ' ' || name[i] >= 0x7f {
			return false
		}
	}
	return name != "" && len(name) <= maxName
}

// anothers reports whether a ticket is the place of somebody else: in a browser
// that two members share, the second must not get the first one's place. A
// ticket without a name is taken for the same person's.
func (x *exchange) anothers(t token.Ticket) bool {
	return t.Named && x.person != "" && t.Visitor != x.person
}

// named reports whether a visitor of this request is one that has a name. A pass
// does not say: its holder's place is treated as if it had, and moves to nobody.
func (x *visit) named(visitor string) bool {
	switch {
	case x.person != "" && visitor == x.person:
		return true
	case x.ticket != nil && x.ticket.Visitor == visitor:
		return x.ticket.Named
	case x.shown != nil && x.shown.pass.Visitor == visitor:
		return x.room.Identity.inUse()
	default:
		return false
	}
}

// standAsPerson is stand for a request that proves who sent it. The place is
// found by the name alone, so a lost ticket and a second browser cost nothing. A
// place taken without a name moves to the person, once; if both have one the
// earlier stays.
func (x *exchange) standAsPerson(join bool) (st queue.Standing, joined bool, err error) {
	var over queue.Standing
	search := queue.Sign{Visitor: x.person}
	if sign, ok := x.signOfLife(); ok {
		switch {
		case x.ended:
			over = queue.Standing{Visitor: sign.Visitor, State: queue.Ended, Why: x.why}
			over.Room, _ = x.room.Line.Room()
		case sign.Visitor != x.person:
			search = sign
		default:
			st, err = x.touch(sign)
			if err != nil || inside(st) {
				return st, false, err
			}
			over = st
		}
	}
	if st, err = x.find(search); err != nil || inside(st) {
		return st, false, err
	}
	if !join {
		if over.State == queue.Ended {
			st = over
		}
		return st, false, nil
	}
	st, err = x.join(x.person)
	return st, true, err
}

// find moves the place of sign, if it is another visitor's, to the person, and
// tells where they stand. Whoever is in line has thereby given a sign of life.
func (x *exchange) find(sign queue.Sign) (queue.Standing, error) {
	st, err := x.ask(func(ctx context.Context, l Line) (queue.Standing, error) { return l.Move(ctx, sign, x.person) })
	if err != nil || (st.State != queue.Away && st.State != queue.Waiting) {
		return st, err
	}
	here := queue.Sign{
		Visitor: x.person, Place: st.Place, Generation: st.Room.Generation, Epoch: st.Room.Epoch,
		Due: st.Due, Ahead: st.Ahead, Joined: st.Joined,
	}
	return x.ask(func(ctx context.Context, l Line) (queue.Standing, error) { return l.Touch(ctx, here) })
}

// inside reports whether a standing has a place or a pass.
func inside(st queue.Standing) bool { return st.State != queue.Ended && st.State != queue.Unknown }
