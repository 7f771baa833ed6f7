package token

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"hash"
	"io"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	ticketVersion = 1
	ticketNamed   = 1  // the flag of Ticket.Named
	ticketFirst   = 2  // the flag of a ticket that knows Ticket.First
	ticketMAC     = 16 // bytes of the HMAC that are kept: 128 bits
	ticketHead    = 1 + ticketMAC
	maxReturn     = 1024 // bytes of Ticket.Return
)

// Ticket is a place in line.
type Ticket struct {
	// Visitor who holds the place, as ValidVisitor wants it.
	Visitor string

	// Place is the sequence number in the line; Generation and Epoch say of which
	// line. 0 to 2^53-1 each.
	Place, Generation, Epoch int64

	// Named is set when Visitor was made of an identity that the shop vouched for.
	// Such a place never moves to another identity.
	Named bool

	// Joined is the Redis TIME of the join. Open returns it in UTC and in whole
	// milliseconds; zero stays zero.
	Joined time.Time

	// Seen is the room time in milliseconds of the last recorded sign of life, Due
	// that until which it counts.
	Seen, Due int64

	// Ahead is the number of people in front as last shown, -1 when none was.
	Ahead int64

	// First is the number of people in front that was shown first, from which progress
	// is measured; 0 when nobody was, and when it is not known.
	First int64

	// Return is where to go back to: a target on this site that starts with one
	// slash, at most 1024 bytes; may be empty.
	Return string
}

// Tickets seals and opens tickets. It never changes and is safe for use by any number
// of goroutines.
//
// A ticket cannot be read by its holder: before a draw it holds the lot, and who could
// read that would join until a good one came and throw the others away. It is sealed as
// in RFC 5297: the MAC of the content is also the start of the key stream, so the same
// content gives the same ticket, and no counter or random number can ever repeat.
type Tickets struct {
	seals sync.Pool    // of *seal
	block cipher.Block // of the key stream
}

// seal is what it takes to seal or open one ticket, used again for others: an HMAC made
// anew hashes its key each time, and cipher.NewCTR copies the one of the stream.
type seal struct {
	mac             hash.Hash
	room, text      []byte
	sum             [sha256.Size]byte
	counter, stream [aes.BlockSize]byte
}

// NewTickets returns the Tickets of an installation with an identity secret of at least
// 32 bytes. All its gates need the same two; a ticket of another installation is refused
// although the secret be the same, for a place there says nothing of the line here.
func NewTickets(identitySecret []byte, installation string) (*Tickets, error) {
	if len(identitySecret) < minSecret {
		return nil, fmt.Errorf("token: identity secret has %d bytes, want at least %d random ones",
			len(identitySecret), minSecret)
	}
	key, err := hkdf.Key(sha256.New, identitySecret, nil, "queuegate ticket v1 "+installation, 64)
	if err != nil {
		return nil, fmt.Errorf("token: ticket key: %w", err)
	}
	block, err := aes.NewCipher(key[32:])
	if err != nil {
		return nil, fmt.Errorf("token: ticket key: %w", err)
	}
	return &Tickets{
		seals: sync.Pool{New: func() any { return &seal{mac: hmac.New(sha256.New, key[:32])} }},
		block: block,
	}, nil
}

// Format prints the name of the type and no key, whatever the verb.
func (t *Tickets) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, "token.Tickets") }

// Seal returns the ticket of k for room in characters that need no quoting in a cookie
// or header, less than 200 of them without Return. A Return that does not lead back to
// this site, or is too long, is left out. A ticket that Open would refuse for another
// reason (no valid visitor, a number out of range) gives "".
func (t *Tickets) Seal(room string, k Ticket) string {
	if k.check() != nil {
		return ""
	}
	if !localTarget(k.Return) {
		k.Return = ""
	}
	s := t.seals.Get().(*seal)
	defer t.seals.Put(s)
	b := append(s.text[:0], make([]byte, ticketHead)...) // nothing of it outlives this call
	b[0] = ticketVersion
	b = append(b, k.flags())
	b = append(b, k.Visitor...)
	for _, n := range [...]int64{k.Place, k.Generation, k.Epoch, k.joined(), k.Seen, k.Due, k.Ahead + 1} {
		b = binary.AppendUvarint(b, uint64(n))
	}
	if k.First != 0 {
		b = binary.AppendUvarint(b, uint64(k.First))
	}
	b = append(b, k.Return...)
	body := b[ticketHead:]
	mac := s.macOf(room, body)
	copy(b[1:], mac)
	s.crypt(t.block, mac, body)
	whole := len(b)
	b = base64.RawURLEncoding.AppendEncode(b, b)
	s.text = b
	return string(b[whole:])
}

// Open returns what the ticket raw says when it was sealed for this room with the same
// secret and installation. With any error (ErrMalformed, ErrSignature) the Ticket is zero, and the error
// holds nothing of the ticket.
func (t *Tickets) Open(room, raw string) (Ticket, error) {
	if len(raw) > MaxSize || strings.IndexByte(raw, '\n') >= 0 || strings.IndexByte(raw, '\r') >= 0 { // which the decoder skips
		return Ticket{}, fmt.Errorf("%w: ticket is not 1 to %d base64url characters", ErrMalformed, MaxSize)
	}
	s := t.seals.Get().(*seal)
	defer t.seals.Put(s)
	s.text = slices.Grow(s.text[:0], len(raw)) // nothing of it outlives this call
	b, err := strict.AppendDecode(s.text, []byte(raw))
	if err != nil || len(b) < ticketHead+1+visitorSize || b[0] != ticketVersion {
		return Ticket{}, fmt.Errorf("%w: not a ticket of version %d", ErrMalformed, ticketVersion)
	}
	mac, body := b[1:ticketHead], b[ticketHead:]
	s.crypt(t.block, mac, body)
	if !hmac.Equal(s.macOf(room, body), mac) {
		return Ticket{}, fmt.Errorf("%w: ticket", ErrSignature)
	}
	return decodeTicket(body)
}

// decodeTicket reads what Seal wrote behind version and MAC. It trusts nothing all
// the same: the secret may have been used by a version that wrote otherwise.
func decodeTicket(body []byte) (Ticket, error) {
	flags, rest := body[0], body[1+visitorSize:]
	if flags > ticketNamed|ticketFirst {
		return Ticket{}, fmt.Errorf("%w: flags of ticket", ErrMalformed)
	}
	k := Ticket{Visitor: string(body[1 : 1+visitorSize]), Named: flags&ticketNamed != 0}
	var numbers [8]int64 // First is the last, and may be missing
	given := len(numbers) - 1
	if flags&ticketFirst != 0 {
		given++
	}
	for i := range given {
		n, size := binary.Uvarint(rest)
		if size <= 0 || n > maxInteger {
			return Ticket{}, fmt.Errorf("%w: number in ticket", ErrMalformed)
		}
		numbers[i], rest = int64(n), rest[size:]
	}
	k.Place, k.Generation, k.Epoch, k.Seen, k.Due = numbers[0], numbers[1], numbers[2], numbers[4], numbers[5]
	k.Ahead, k.First = numbers[6]-1, numbers[7]
	if joined := numbers[3]; joined != 0 {
		k.Joined = time.UnixMilli(joined).UTC()
	}
	k.Return = string(rest)
	if k.check() != nil || !localTarget(k.Return) {
		return Ticket{}, fmt.Errorf("%w: content of ticket", ErrMalformed)
	}
	return k, nil
}

// crypt is cipher.NewCTR(block, start).XORKeyStream(body, body).
func (s *seal) crypt(block cipher.Block, start, body []byte) {
	copy(s.counter[:], start)
	for len(body) > 0 {
		block.Encrypt(s.stream[:], s.counter[:])
		body = body[subtle.XORBytes(body, body, s.stream[:]):]
		for i := len(s.counter) - 1; i >= 0; i-- {
			if s.counter[i]++; s.counter[i] != 0 {
				break
			}
		}
	}
}

// macOf is the MAC of a ticket's content in a room. The length of the room comes first, so
// that no room's name can reach into the content. It is good until the next call.
func (s *seal) macOf(room string, body []byte) []byte {
	s.mac.Reset()
	s.room = append(binary.AppendUvarint(s.room[:0], uint64(len(room))), room...)
	s.mac.Write(s.room)
	s.mac.Write(body)
	return s.mac.Sum(s.sum[:0])[:ticketMAC]
}

// joined is Joined in milliseconds, 0 when there is none.
func (k Ticket) joined() int64 {
	if k.Joined.IsZero() {
		return 0
	}
	return k.Joined.UnixMilli()
}

// flags is what a ticket says by yes or no.
func (k Ticket) flags() (flags byte) {
	if k.Named {
		flags = ticketNamed
	}
	if k.First != 0 {
		flags |= ticketFirst
	}
	return flags
}

func (k Ticket) check() error {
	for _, n := range [...]int64{k.Place, k.Generation, k.Epoch, k.joined(), k.Seen, k.Due, k.Ahead + 1, k.First} {
		if !integer(n) {
			return ErrMalformed
		}
	}
	if !ValidVisitor(k.Visitor) {
		return ErrMalformed
	}
	return nil
}

// localTarget reports whether s may be sent to a browser as the place to return to. Two
// slashes, a backslash that browsers read as one, or a control character that they drop
// would lead to another site.
func localTarget(s string) bool {
	if s == "" {
		return true
	}
	if len(s) > maxReturn || s[0] != '/' || len(s) > 1 && s[1] == '/' {
		return false
	}
	for i := range len(s) {
		if c := s[i]; c < ' ' || c == 0x7f || c == '\\' {
			return false
		}
	}
	return true
}
