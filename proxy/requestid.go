package proxy

import "math/rand/v2"

// newRequestID names a request: 26 characters that hold 128 bits, as
// crypto/rand.Text writes them. It tells requests apart, over all gates, and keeps no
// secret; the runtime's generator is seeded by the system and asks it nothing more.
func newRequestID() string {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
	var id [26]byte
	for part := range 2 {
		bits := rand.Uint64() //nolint:gosec // see above
		for i := range len(id) / 2 {
			id[part*len(id)/2+i] = alphabet[bits&31]
			bits >>= 5
		}
	}
	return string(id[:])
}
