package proxy

import (
	"context"
	"net/http"
	"strings"

	"github.com/queuegate/queuegate/queue"
)

// The headers in which the shop speaks to the gate.
const (
	headerCommand = "X-Queuegate-Command"
	headerStock   = "X-Queuegate-Stock"
)

// What X-Queuegate-Command may say; several with commas between them.
const (
	commandRelease = "release"  // the pass of this request is given back
	commandSoldOut = "sold-out" // nothing is left: newcomers get no place
	commandOnSale  = "on-sale"  // there is something again
)

// word is what the shop says to the gate with one answer.
type word struct {
	release bool
	set     map[queue.Setting]string // nil: nothing at all is said
	cleared []queue.Setting
	unknown []string
}

// wordOf reads what the shop says; of two that contradict each other the later
// counts. Only these very spellings are obeyed.
func wordOf(h http.Header) word {
	if len(h[headerCommand])+len(h[headerStock]) == 0 {
		return word{}
	}
	w := word{set: map[queue.Setting]string{}}
	for command := range strings.SplitSeq(strings.Join(h[headerCommand], ","), ",") {
		switch command = strings.TrimSpace(command); command {
		case "":
		case commandRelease:
			w.release = true
		case commandSoldOut:
			w.set[queue.SettingState] = string(queue.RoomSoldOut)
			w.cleared = nil
		case commandOnSale:
			delete(w.set, queue.SettingState)
			w.cleared = []queue.Setting{queue.SettingState}
		default:
			w.unknown = append(w.unknown, printable(command))
		}
	}
	if stock := h[headerStock]; len(stock) > 0 {
		w.set[queue.SettingStock] = strings.TrimSpace(stock[len(stock)-1])
	}
	return w
}

// obeys does what the shop says of the room that the request was judged into: with
// a pass, or by an exempt rule, as a callback of the shop's own machines comes. A
// pass that is released is over. What is said on any other route goes unheard, as
// nobody could tell whom it is about.
func (x *exchange) obeys(ctx context.Context, said word) {
	if x.room == nil || x.room.off() {
		return
	}
	log := x.g.log.With("request_id", x.record.id, "room", x.room.Name)
	if len(said.unknown) > 0 {
		log.WarnContext(x.r.Context(), "the shop says what the gate does not know; use release, sold-out or on-sale", "command", said.unknown)
	}
	if len(said.set)+len(said.cleared) == 0 {
		return
	}
	if err := x.room.Line.Obey(ctx, said.set, said.cleared...); err != nil {
		log.WarnContext(x.r.Context(), "the shop says what the room cannot obey", "error", err)
	}
}
