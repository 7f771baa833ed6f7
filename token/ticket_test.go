package token_test

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/queuegate/queuegate/token"
)

func newTickets(t testing.TB) *token.Tickets {
	t.Helper()
	tickets, err := token.NewTickets(secret, install)
	require.NoError(t, err)
	return tickets
}

func sampleTicket() token.Ticket {
	return token.Ticket{
		Visitor: visitor, Place: 1772366400000001, Generation: 1772366300000000, Epoch: 3,
		Joined: issuedAt.Add(123 * time.Millisecond), Seen: 1772366400123, Due: 1772366413246,
		Ahead: 341, Return: "/checkout?step=2&x=%2F#pay",
	}
}

func TestOpenReturnsWhatWasSealed(t *testing.T) {
	t.Parallel()
	tickets := newTickets(t)
	const greatest = 1<<53 - 1
	for name, change := range map[string]func(*token.Ticket){
		"as it is":            func(*token.Ticket) {},
		"no number shown yet": func(k *token.Ticket) { k.Ahead = -1 },
		"nobody in front":     func(k *token.Ticket) { k.Ahead = 0 },
		"progress":            func(k *token.Ticket) { k.First = 512 },
		"progress of a name":  func(k *token.Ticket) { k.First, k.Named = 1, true },
		"of an identity":      func(k *token.Ticket) { k.Named = true },
		"no return":           func(k *token.Ticket) { k.Return = "" },
		"longest return":      func(k *token.Ticket) { k.Return = "/" + strings.Repeat("a", 1023) },
		"return beyond ASCII": func(k *token.Ticket) { k.Return = "/주문" },
		"never joined":        func(k *token.Ticket) { k.Joined = time.Time{} },
		"only a visitor":      func(k *token.Ticket) { *k = token.Ticket{Visitor: visitor} },
		"greatest numbers": func(k *token.Ticket) {
			k.Place, k.Generation, k.Epoch, k.Seen, k.Due, k.Ahead, k.First = greatest, greatest, greatest, greatest, greatest, greatest-1, greatest
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := sampleTicket()
			change(&want)
			raw := tickets.Seal(room, want)
			require.NotEmpty(t, raw)
			require.LessOrEqual(t, len(raw), token.MaxSize)
			got, err := tickets.Open(room, raw)
			require.NoError(t, err)
			require.Equal(t, want, got)
		})
	}
}

func TestTicketIsShortAndNeedsNoQuoting(t *testing.T) {
	t.Parallel()
	const greatest = 1<<53 - 1
	raw := newTickets(t).Seal(room, token.Ticket{
		Visitor: visitor, Place: greatest, Generation: greatest, Epoch: greatest, Joined: time.UnixMilli(greatest),
		Seen: greatest, Due: greatest, Ahead: greatest - 1, First: greatest,
	})
	require.Regexp(t, `^[A-Za-z0-9_-]+$`, raw)
	require.Less(t, len(raw), 200)
}

func TestJoinedKeepsMilliseconds(t *testing.T) {
	t.Parallel()
	tickets := newTickets(t)
	k := sampleTicket()
	k.Joined = time.Date(2026, 3, 1, 21, 0, 0, 123_999_999, time.FixedZone("KST", 9*3600))
	got, err := tickets.Open(room, tickets.Seal(room, k))
	require.NoError(t, err)
	require.Equal(t, issuedAt.Add(123*time.Millisecond), got.Joined)
}

func TestReturnToAnotherSiteIsLeftOut(t *testing.T) {
	t.Parallel()
	tickets := newTickets(t)
	for _, back := range []string{
		"//evil.example", "///evil.example", `/\evil.example`, `\\evil.example`, "https://evil.example/", "javascript:alert(1)",
		"evil.example", "/\t/evil.example", "/\n/evil.example", "/a\r\nSet-Cookie: x=1", "/a\x00", "/a\x7f", " /a", "?a", "#a",
		"/" + strings.Repeat("a", 1024),
	} {
		want := sampleTicket()
		want.Return = back
		got, err := tickets.Open(room, tickets.Seal(room, want))
		require.NoError(t, err, "%q", back)
		want.Return = ""
		require.Equal(t, want, got, "%q", back)
	}
}

func TestSealOfAnImpossibleTicketIsEmpty(t *testing.T) {
	t.Parallel()
	tickets := newTickets(t)
	for name, change := range map[string]func(*token.Ticket){
		"no visitor":                  func(k *token.Ticket) { k.Visitor = "" },
		"visitor of another alphabet": func(k *token.Ticket) { k.Visitor = strings.Repeat("a", 26) },
		"negative place":              func(k *token.Ticket) { k.Place = -1 },
		"place too great":             func(k *token.Ticket) { k.Place = 1 << 53 },
		"negative generation":         func(k *token.Ticket) { k.Generation = -1 },
		"negative epoch":              func(k *token.Ticket) { k.Epoch = -1 },
		"negative seen":               func(k *token.Ticket) { k.Seen = -1 },
		"negative due":                func(k *token.Ticket) { k.Due = -1 },
		"ahead under -1":              func(k *token.Ticket) { k.Ahead = -2 },
		"ahead that wraps around":     func(k *token.Ticket) { k.Ahead = math.MaxInt64 },
		"first under 0":               func(k *token.Ticket) { k.First = -1 },
		"first beyond 2^53":           func(k *token.Ticket) { k.First = 1 << 53 },
		"joined before 1970":          func(k *token.Ticket) { k.Joined = time.Unix(-1, 0) },
	} {
		k := sampleTicket()
		change(&k)
		require.Empty(t, tickets.Seal(room, k), name)
	}
}

func TestOpenRefusesForgedTickets(t *testing.T) {
	t.Parallel()
	tickets := newTickets(t)
	good := tickets.Seal(room, sampleTicket())
	data, err := base64.RawURLEncoding.DecodeString(good)
	require.NoError(t, err)
	other, err := token.NewTickets(oldSecret, install)
	require.NoError(t, err)
	staging, err := token.NewTickets(secret, "queuegate/staging")
	require.NoError(t, err)
	nameless, err := token.NewTickets(secret, "")
	require.NoError(t, err)
	entry := sign(t, authority(t, token.Options{Secret: secret}), samplePass())
	encode := base64.RawURLEncoding.EncodeToString
	later := bytes.Clone(data)
	later[0] = 2

	for name, tt := range map[string]struct {
		raw  string
		want error
	}{
		"empty":                          {"", token.ErrMalformed},
		"spaces":                         {"  ", token.ErrMalformed},
		"one character":                  {"A", token.ErrMalformed},
		"64 KiB":                         {strings.Repeat("A", 64<<10), token.ErrMalformed},
		"one group over the cap":         {"AQ" + strings.Repeat("A", token.MaxSize+2), token.ErrMalformed},
		"exactly the cap":                {"AQ" + strings.Repeat("A", token.MaxSize-2), token.ErrSignature},
		"newline inside":                 {good[:9] + "\n" + good[9:], token.ErrMalformed},
		"newline behind":                 {good + "\n", token.ErrMalformed},
		"padding behind":                 {good + "=", token.ErrMalformed},
		"standard alphabet":              {"+" + good[1:], token.ErrMalformed},
		"a length no bytes have":         {"AAAAA", token.ErrMalformed},
		"another version":                {encode(later), token.ErrMalformed},
		"only a MAC":                     {encode(data[len(data)-16:]), token.ErrMalformed},
		"a MAC cut short":                {encode(data[:len(data)-1]), token.ErrSignature},
		"a byte behind":                  {encode(append(bytes.Clone(data), 0)), token.ErrSignature},
		"another secret":                 {other.Seal(room, sampleTicket()), token.ErrSignature},
		"another installation":           {staging.Seal(room, sampleTicket()), token.ErrSignature},
		"no installation":                {nameless.Seal(room, sampleTicket()), token.ErrSignature},
		"another room":                   {tickets.Seal("drop", sampleTicket()), token.ErrSignature},
		"a room that begins like it":     {tickets.Seal(room+"-vip", sampleTicket()), token.ErrSignature},
		"no room":                        {tickets.Seal("", sampleTicket()), token.ErrSignature},
		"entry token shown as a ticket":  {entry, token.ErrMalformed},
		"claims of an entry token alone": {strings.Split(entry, ".")[1], token.ErrMalformed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k, err := tickets.Open(room, tt.raw)
			require.ErrorIs(t, err, tt.want)
			require.Zero(t, k)
		})
	}
	_, err = tickets.Open(room, good)
	require.NoError(t, err, "the ticket all of these were made from is good")
}

// A MAC proves who wrote a ticket, not that what was written makes sense now.
func TestSealedContentThatIsNoTicketIsRefused(t *testing.T) {
	t.Parallel()
	tickets := newTickets(t)
	key, err := hkdf.Key(sha256.New, secret, nil, "queuegate ticket v1 queuegate/qg", 64)
	require.NoError(t, err)
	block, err := aes.NewCipher(key[32:])
	require.NoError(t, err)
	seal := func(body string) string {
		h := hmac.New(sha256.New, key[:32])
		h.Write([]byte{byte(len(room))})
		h.Write([]byte(room + body))
		mac, hidden := h.Sum(nil)[:16], []byte(body)
		cipher.NewCTR(block, mac).XORKeyStream(hidden, hidden)
		return b64("\x01" + string(mac) + string(hidden))
	}
	const numbers = "\x01\x02\x03\x04\x05\x06\x07"
	k, err := tickets.Open(room, seal("\x00"+visitor+numbers+"/a"))
	require.NoError(t, err)
	require.Equal(t, token.Ticket{
		Visitor: visitor, Place: 1, Generation: 2, Epoch: 3, Joined: time.UnixMilli(4).UTC(), Seen: 5, Due: 6, Ahead: 6, Return: "/a",
	}, k)
	for name, body := range map[string]string{
		"a flag nobody knows":         "\x04" + visitor + numbers + "\x08",
		"progress that is missing":    "\x02" + visitor + numbers,
		"no number":                   "\x00" + visitor,
		"a number too few":            "\x00" + visitor + numbers[1:],
		"a number without an end":     "\x00" + visitor + numbers[1:] + "\x80",
		"a number beyond 64 bits":     "\x00" + visitor + strings.Repeat("\xff", 10) + numbers,
		"a number beyond 2^53":        "\x00" + visitor + "\xff\xff\xff\xff\xff\xff\xff\x7f" + numbers[1:],
		"visitor of another alphabet": "\x00" + strings.ToLower(visitor) + numbers,
		"return to another site":      "\x00" + visitor + numbers + "//evil.example",
		"return too long":             "\x00" + visitor + numbers + "/" + strings.Repeat("a", 1024),
	} {
		k, err := tickets.Open(room, seal(body))
		require.ErrorIs(t, err, token.ErrMalformed, name)
		require.Zero(t, k, name)
	}
}

func TestNoBitOfATicketCanBeChanged(t *testing.T) {
	t.Parallel()
	tickets := newTickets(t)
	data, err := base64.RawURLEncoding.DecodeString(tickets.Seal(room, sampleTicket()))
	require.NoError(t, err)
	for i := range data {
		for bit := range 8 {
			changed := bytes.Clone(data)
			changed[i] ^= 1 << bit
			_, err := tickets.Open(room, base64.RawURLEncoding.EncodeToString(changed))
			require.Error(t, err, "byte %d bit %d", i, bit)
		}
	}
}

// Who could read a lot before the draw would join until it is a good one, and no ticket
// is to tell when its holder was seen.
func TestATicketTellsItsHolderNothing(t *testing.T) {
	t.Parallel()
	tickets := newTickets(t)
	k := sampleTicket()
	first, err := base64.RawURLEncoding.DecodeString(tickets.Seal(room, k))
	require.NoError(t, err)
	for _, part := range [][]byte{
		[]byte(k.Visitor), []byte(k.Return), binary.AppendUvarint(nil, uint64(k.Place)), binary.AppendUvarint(nil, uint64(k.Due)),
	} {
		require.NotContains(t, string(first), string(part))
	}
	k.Place++
	second, err := base64.RawURLEncoding.DecodeString(tickets.Seal(room, k))
	require.NoError(t, err)
	same := 0
	for i := range first {
		if first[i] == second[i] {
			same++
		}
	}
	require.Less(t, same, len(first)/8, "two neighbours have nothing in common")
	require.Equal(t, tickets.Seal(room, k), tickets.Seal(room, k), "the same content is the same ticket")
}

func TestTicketKeyIsNotTheSecretItself(t *testing.T) {
	t.Parallel()
	tickets := newTickets(t)
	derived, err := token.NewTickets(token.DeriveIdentitySecret(secret, install), install)
	require.NoError(t, err)
	_, err = derived.Open(room, tickets.Seal(room, sampleTicket()))
	require.ErrorIs(t, err, token.ErrSignature)
}

func TestShortIdentitySecretIsRefused(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, 31} {
		tickets, err := token.NewTickets(secret[:n], install)
		require.EqualError(t, err, fmt.Sprintf("token: identity secret has %d bytes, want at least 32 random ones", n))
		require.Nil(t, tickets)
		require.Nil(t, token.DeriveIdentitySecret(secret[:n], install))
		require.Empty(t, token.VisitorFromKey(secret[:n], room, "idempotency", "k"))
	}
}

// People wait through an upgrade: what an older gate sealed must open at a newer one.
func TestTicketsOfTheFirstVersionStillOpen(t *testing.T) {
	t.Parallel()
	tickets, err := token.NewTickets(token.DeriveIdentitySecret(secret, install), install)
	require.NoError(t, err)
	k, err := tickets.Open(room, "AQhWCZDTUJ2YHHkDBr8lKtoT9izxtadFrStHtJnU0VfzjUcPXNrfxJEJCFwAA_htNV0OhCYcl_K40t5KHW1C7v1kdup-4am-z7LLg09A3gw1IhvHuY0Da-aOZ2RqsVZrCSXcrNNS0KN7GrM")
	require.NoError(t, err)
	require.Equal(t, sampleTicket(), k)
}
