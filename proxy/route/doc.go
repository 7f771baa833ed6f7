// Package route decides which room a request belongs to, or that it belongs to
// none. It is pure: no clock, no network, no state beside the compiled table.
//
// The gate and the shop may read one request target differently: the one sees
// /static/..%2forder, the other serves /order. Whoever finds such a difference
// walks around the line. So the gate does not bet on one reading:
//
//  1. [Parse] refuses what is not an ordinary request target (opaque and
//     authority forms, control bytes, a raw "#", CONNECT, TRACE and their like).
//  2. It takes every reading of the path that any order of the usual steps can
//     give: percent-decoding, with and without %2F, any number of times; "\" read
//     as "/"; "//" collapsed; a leading authority removed, after two slashes or
//     after however many there are; tabs and line breaks removed; dot segments
//     resolved; ;params cut; trailing dots, spaces and control bytes of segments
//     dropped; the path cut at "#", "?" or NUL. Steps not yet taken count as well:
//     /order/../x is a reading under /order. Letter case is folded in the
//     comparison.
//  3. [Table.Match]: a target is the gate's own if any reading lies under the
//     reserved prefix; protected if any reading is protected; exempt only if
//     every reading is exempt by rules of that same room; and refused if its
//     readings lie in different rooms, because a pass for one must not open the
//     other.
//
// Most targets have one reading, found by one scan that allocates the slice and no
// path. A target with more than 64 readings, or more than 32 KiB of them, is
// refused: nobody writes one by accident.
//
// Rules match whole segments of the path and what is below them: /order covers
// /order, /order/ and /order/1, not /orders or /order.css. A segment "*" stands
// for any one segment. The query and the fragment never matter.
//
// Not covered: Unicode normalisation (NFC against NFD, full-width letters),
// overlong UTF-8 and %uXXXX escapes. A shop that decodes those can tell two
// spellings of a path to be one where the gate sees two.
package route
