package token

import "errors"

var (
	// ErrMalformed is returned when a token or ticket is empty, longer than
	// [MaxSize], holds a character or a base64 spelling that this package never
	// writes, has the wrong number of parts, or when what it says is incomplete,
	// of a wrong type or out of range although it is signed.
	ErrMalformed = errors.New("token: malformed")

	// ErrSignature is returned when the header names no key, algorithm and type
	// of this Authority or when the signature is not that key's. A ticket of
	// another room or installation answers this too: both are part of what is
	// signed.
	ErrSignature = errors.New("token: not signed by a key in use")

	// ErrRoom is returned when a well signed entry token was given for another
	// room, by another issuer or by another installation.
	ErrRoom = errors.New("token: for another room, issuer or installation")

	// ErrExpired is returned by VerifyAt when exp is now or earlier. Verify never
	// returns it.
	ErrExpired = errors.New("token: expired")
)
