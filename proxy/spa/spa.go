// Package spa has the helper for shops whose pages call the shop by script.
//
// The script has no build step and is sent as it is written, so it is written short.
// All calls that wait in one room share a line: one stream of events where the browser
// has the gate's cookies, and one chain of polls, which go on by themselves when the
// stream fails. What the stream says is asked for again, because the cookies of a new
// ticket and of the pass come with an answer. A script of another origin has no
// cookies; ticket and pass then go in headers, to the gate's origin and nowhere else.
package spa

import _ "embed" // the script is part of the program

// Script is queue.js.
//
//go:embed queue.js
var Script []byte
