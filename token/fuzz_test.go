package token_test

import (
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/queuegate/queuegate/token"
)

// FuzzVerify: whatever is shown, Verify does not panic, and accepts only what was
// signed, in the one spelling it was signed in.
func FuzzVerify(f *testing.F) {
	a := authority(f, token.Options{Secret: secret})
	good := sign(f, a, samplePass())
	f.Add(good)
	f.Add("")
	f.Add("a.b.c")
	f.Add(good + "\n")
	f.Add(strings.Repeat(".", 100))
	f.Add(good[:len(good)-1] + "B")
	part := base64.RawURLEncoding.EncodeToString
	_, signed, _ := strings.Cut(good, ".")
	claims, mac, _ := strings.Cut(signed, ".")
	for _, header := range []string{
		`{"alg":"none","typ":"entry+jwt"}`, `{"alg":"nOnE"}`, `{"alg":"HS512","typ":"JWT"}`, `{"alg":"RS256","kid":"x"}`, `{"alg":"HS256","kid":"../../dev/null"}`,
		`{"alg":"HS256","crit":["b64"],"b64":false}`, `{"alg":"HS256","jku":"http://127.0.0.1/"}`, `{"alg":["HS256"]}`, `[]`, `{"alg":"HS256","alg":"none"}`,
	} {
		f.Add(part([]byte(header)) + "." + claims + "." + mac)
		f.Add(part([]byte(header)) + "." + claims + ".")
	}
	for _, body := range []string{`{"exp":null}`, `{"aud":["sale","drop"]}`, `{"exp":1e400}`, `{"sub":{}}`, `{"exp":-1,"iat":99999999999999999999}`, `null`} {
		f.Add(strings.Split(good, ".")[0] + "." + part([]byte(body)) + "." + mac)
	}
	f.Add(good + "=")
	f.Add(good + "." + mac)
	f.Add(strings.Replace(good, ".", ".\n", 1))
	f.Add("Bearer " + good)
	f.Fuzz(func(t *testing.T, raw string) {
		p, err := a.Verify(raw, room)
		if raw == good {
			require.NoError(t, err)
			require.Equal(t, samplePass(), p)
			return
		}
		require.Error(t, err)
		require.Zero(t, p)
	})
}

// FuzzPass: whatever is signed comes back, and what cannot come back is not signed.
func FuzzPass(f *testing.F) {
	a := authority(f, token.Options{Secret: secret})
	f.Add(room, visitor, "1", "ready", int64(1), int64(2), int64(3), int64(4), int64(1772366400), int64(1772366490))
	f.Add("a b", "x", "<&>", "active", int64(-1), int64(1<<53), int64(0), int64(0), int64(0), int64(-1<<63))
	f.Fuzz(func(t *testing.T, room, visitor, admission, stage string, place, generation, epoch, end, iat, exp int64) {
		want := token.Pass{
			Room: room, Visitor: visitor, Admission: admission, Stage: token.Stage(stage), Place: place,
			Generation: generation, Epoch: epoch, End: end, IssuedAt: time.Unix(iat, 0).UTC(), Expires: time.Unix(exp, 0).UTC(),
		}
		raw, err := a.Sign(want)
		if err != nil {
			require.Empty(t, raw)
			return
		}
		got, err := a.Verify(raw, room)
		require.NoError(t, err)
		require.Equal(t, want, got)
		require.LessOrEqual(t, len(raw), token.MaxSize)
	})
}

// FuzzOpenTicket: whatever is shown, Open does not panic, and a sealed ticket comes back
// whole while none with a changed byte does.
func FuzzOpenTicket(f *testing.F) {
	tickets := newTickets(f)
	f.Add(tickets.Seal(room, sampleTicket()), visitor, int64(1), int64(2), int64(3), int64(4), int64(5), int64(6), int64(-1), "/a", uint(3), byte(1))
	f.Add("", "", int64(-1), int64(1<<53), int64(0), int64(0), int64(0), int64(0), int64(-2), "//a", uint(0), byte(0))
	f.Fuzz(func(t *testing.T, raw, visitor string, place, generation, epoch, joined, seen, due, ahead int64, back string, at uint, flip byte) {
		if k, err := tickets.Open(room, raw); err == nil {
			require.Equal(t, raw, tickets.Seal(room, k), "one ticket has one spelling")
		} else {
			require.Zero(t, k)
		}
		want := token.Ticket{
			Visitor: visitor, Place: place, Generation: generation, Epoch: epoch, Seen: seen, Due: due, Ahead: ahead, First: max(ahead, 0), Return: back,
			Named: flip%2 == 1,
		}
		if joined != 0 {
			want.Joined = time.UnixMilli(joined).UTC()
		}
		sealed := tickets.Seal(room, want)
		if sealed == "" {
			return
		}
		got, err := tickets.Open(room, sealed)
		require.NoError(t, err)
		if got.Return == "" {
			want.Return = "" // it led to another site
		}
		require.Equal(t, want, got)
		if flip == 0 {
			return
		}
		changed := []byte(sealed)
		changed[at%uint(len(changed))] ^= flip
		_, err = tickets.Open(room, string(changed))
		require.Error(t, err)
	})
}
