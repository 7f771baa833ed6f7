package token

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
)

// visitorSize is the length of a visitor id: what crypto/rand.Text gives, 130 bits.
const visitorSize = 26

// NewVisitor returns an id for somebody not seen before: 130 random bits in 26
// characters that nobody can guess.
func NewVisitor() string {
	// Cut, should a later Go make the text longer; 26 characters stay 130 bits.
	return rand.Text()[:visitorSize]
}

// VisitorFromKey returns the same id for the same room, kind and value: kind says what
// value is, for instance an idempotency key. Nobody without the secret can compute it
// or tell what it was made of. With a secret under 32 bytes it returns "", which is
// no valid id.
func VisitorFromKey(identitySecret []byte, room, kind, value string) string {
	if len(identitySecret) < minSecret {
		return ""
	}
	mac := hmac.New(sha256.New, identitySecret)
	mac.Write([]byte("queuegate visitor v1"))
	// With the lengths, so that what ends one part and begins the next is signed too.
	for _, part := range [...]string{room, kind, value} {
		mac.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part))))
		mac.Write([]byte(part))
	}
	return base32.StdEncoding.EncodeToString(mac.Sum(nil))[:visitorSize]
}

// ValidVisitor reports whether s has the form of a visitor id: 26 characters of A-Z
// and 2-7.
func ValidVisitor(s string) bool {
	if len(s) != visitorSize {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if (c < 'A' || 'Z' < c) && (c < '2' || '7' < c) {
			return false
		}
	}
	return true
}

// DeriveIdentitySecret returns the 32 byte secret for VisitorFromKey and DrawKey of an
// installation: with another one that shares the secret, the same person is another
// visitor and draws another lot. With a secret under 32 bytes it returns nil, for which
// both return nothing.
func DeriveIdentitySecret(secret []byte, installation string) []byte {
	if len(secret) < minSecret {
		return nil
	}
	secret, err := hkdf.Key(sha256.New, secret, nil, "queuegate identity secret v1 "+installation, 32)
	if err != nil {
		return nil
	}
	return secret
}

// DrawKey returns the 32 byte key for the lots of a room that draws its places. It is
// the same on all gates of an installation and another one for each room; nobody without
// the secret can compute a lot. With a secret under 32 bytes it returns nil.
func DrawKey(identitySecret []byte, room string) []byte {
	if len(identitySecret) < minSecret {
		return nil
	}
	key, err := hkdf.Key(sha256.New, identitySecret, nil, "queuegate draw v1 "+room, 32)
	if err != nil {
		return nil
	}
	return key
}
