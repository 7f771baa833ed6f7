// Package stream carries what visitors are told over connections that stay open:
// server-sent events and WebSocket messages. A Hub has the streams of one room. One
// goroutine looks at all of them on every tick and writes what is new; a stream
// itself costs no goroutine, a WebSocket one that reads.
//
// What is told, and when, a Follower says. An open stream proves nothing about the
// person behind it: only the answer to a ping does.
package stream
