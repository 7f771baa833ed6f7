// Package queue is the line of a room: who waits, at which place, who is let in
// and who holds a slot. All of its state is in Redis and every change is one Lua
// script, so that any number of gates share one line and none of them owns it.
//
// A visitor leads one life: away (has a place, is not here), waiting (is here),
// ready (admitted, pass not used yet), active (using it), ended. What brings
// somebody from away to waiting is a sign of life (Line.Touch); what keeps them
// there is the next one, before it is due.
//
// What holds at every moment:
//
//  1. A visitor has at most one place and one slot in a room; joining again
//     tells the same place again.
//  2. Places are numbers taken inside Redis, each higher than any before. Among
//     those who are here nobody is admitted before a lower one.
//  3. There are never more leases than slots. A lease past its end still counts
//     until somebody else gets its slot; a slot given on is never revived.
//  4. In any window of t seconds there are fewer than burst + r*t admissions,
//     with r = (PerMinute - burst + 1)/60, so never more than PerMinute in 60 s.
//  5. Who is overdue steps aside with the place kept and costs no slot; back in
//     time they stand where they stood.
//  6. Every script can run twice, or late, and the result is the same.
//
// The only clock is room time (see lua/room.lua): it follows Redis's TIME, never
// runs backwards and never leaps while anybody waits, so that a frozen Redis or
// a clock set wrong stops the room and takes nothing from anybody. No host's
// clock decides anything.
package queue
