// Package proxy is the gate: a reverse proxy that lets people into the
// protected routes of a shop as fast as the shop can serve them and keeps
// everybody else in one fair line.
//
// # A request
//
// Gate.ServeHTTP is a list of questions; the first that is answered decides.
//
//  1. Is the target one that two programs could read differently? 400 or 405,
//     and the shop sees nothing. Is it under the reserved prefix? Then it is
//     ours and never reaches the shop.
//  2. Does no room protect it? The shop gets it at once: no Redis, no cookie.
//     The same for a room that is suspended or has no line.
//  3. Is it exempt, or a true CORS preflight? The shop gets it: no place, no
//     cookie.
//  4. Does it bring a pass, an entry token that is signed for this room, has not
//     ended and whose lease is running? The shop gets it. A pass not used before
//     is taken up first, one past its end is asked about, an old one is renewed.
//  5. Otherwise it stands in line. Whose turn it is goes to the shop with this
//     very request; everybody else gets an answer of our own: a page where a
//     person looks at it, JSON where a program reads it, and never a redirect.
//
// Who stands in line is told by the ticket. Where the shop has a name for people
// and the request proves one, the name goes before the ticket: one person has one
// place, whatever browsers they use, and a ticket of another person counts for
// nothing.
//
// Each branch yields a Decision, which the access log shows.
//
// No error opens the gate. What cannot be decided is refused, save in a room
// whose operator chose OnRedisErrorOpen.
//
// # What the shop sees
//
// The target, the Host and the body byte for byte as they were sent; its own
// cookies in their order and none of ours; X-Forwarded-For, -Proto and -Host by
// the rule of the function forward. Headers that claim another target, another
// method or our own voice are removed in every spelling, on every route. Offers to
// switch to another protocol than WebSocket are not passed on.
//
// WebSockets and event streams of the admitted end with their pass.
//
// # In a program of your own
//
// A Gate is an http.Handler with no globals; a process can have several. The shop
// is an address (Upstream.URL) or a handler of the same program (Upstream.Handler).
// Three things are its owner's: each room's Line has to run (queue.Line.Run) until
// the last request is served; CloseStreams has to be called when the server shuts
// down, because streams end by nothing else; and an http.Server in front should have
// DisableGeneralOptionsHandler, so that OPTIONS * is the gate's to refuse. Server
// does the last two. What the program of cmd/queuegate adds is configuration,
// operators and metrics.
package proxy
