package page

import (
	"slices"
	"time"
)

// States are all states that a page can be asked for.
func States() []State {
	return []State{
		Waiting, NotAccepted, Paused, QueueAll, Degraded, Full, Crowded, Closed, SoldOut, ShopDown, Ready, Ended, Left, Ordering, Used,
		unreachable, cookieless,
	}
}

// Sample is a view of a state as it may look, to try a page out: nothing in it
// asks for anything. The states that only the script comes to can be asked for
// by it, too: "unreachable" and "cookieless". Language is one of
// Renderer.Languages; empty means the default.
func Sample(s State, language string) View {
	v := View{
		State: s, Room: "sample", Language: language,
		Position: 342, Ahead: 341, Behind: 4658, Waiting: 5000, First: 512,
		NumbersKnown: slices.Contains([]State{Waiting, NotAccepted, Paused, QueueAll, Degraded}, s),
		Wait:         12 * time.Minute, WaitKnown: s == Waiting || s == NotAccepted,
		HoldFor: 30 * time.Minute, LeaveURL: "/",
		Checked: time.Date(2026, time.May, 4, 14, 5, 32, 0, time.UTC),
	}
	return v
}
