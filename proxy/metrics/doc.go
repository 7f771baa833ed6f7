// Package metrics counts what gates and lines do, for Prometheus.
//
// Two kinds of numbers stand side by side. What a gate sees itself (requests, the
// shop, streams, calls of Redis) is its own, and is added up over the gates. What a
// room has (people, slots, limits, joins, ends) is read from Redis when it is asked
// for, and every gate tells the same: take the max by room, never the sum.
//
// Labels are rooms, words of this program and classes of status codes. Nothing of a
// request ever becomes one.
package metrics
