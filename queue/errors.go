package queue

import "errors"

var (
	// ErrUnavailable is returned when Redis refused, failed or did not answer in
	// time; it wraps the cause, which FaultOf tells apart. The outcome of the call
	// is unknown: it may have been carried out, or may be carried out later. Every
	// call can be repeated.
	ErrUnavailable = errors.New("queue: Redis is not available")
	// ErrReply is returned when a script's answer has not the shape this version
	// expects. It wraps nothing and is never repaired by trying again. Wrapped
	// together with ErrUnavailable it is the answer to another call.
	ErrReply = errors.New("queue: unexpected reply from Redis")
)
