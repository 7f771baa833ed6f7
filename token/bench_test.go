package token_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/queuegate/queuegate/token"
)

func BenchmarkVerify(b *testing.B) {
	options := map[string]token.Options{"HS256": {Secret: secret}}
	for name, private := range privateKeys(b) {
		options[name] = token.Options{PrivateKey: private}
	}
	for name, o := range options {
		a := authority(b, o)
		raw := sign(b, a, samplePass())
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := a.Verify(raw, room); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkVerifyForged: what an attacker can make one gate spend on one request.
func BenchmarkVerifyForged(b *testing.B) {
	a := authority(b, token.Options{Secret: secret})
	header, _, _ := strings.Cut(sign(b, a, samplePass()), ".")
	tail := "." + strings.Repeat("A", 43)
	for name, raw := range map[string]string{
		"4 KiB with our header":  header + "." + strings.Repeat("A", token.MaxSize-len(header)-1-len(tail)) + tail,
		"4 KiB of letters":       "A.A." + strings.Repeat("A", token.MaxSize-4),
		"1 MB over the size cap": strings.Repeat(".", 1<<20),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := a.Verify(raw, room); err == nil {
					b.Fatal("accepted")
				}
			}
		})
	}
}

func BenchmarkSign(b *testing.B) {
	a := authority(b, token.Options{Secret: secret})
	p := samplePass()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := a.Sign(p); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkSeal(b *testing.B) {
	tickets, k := newTickets(b), sampleTicket()
	b.ReportAllocs()
	for b.Loop() {
		if tickets.Seal(room, k) == "" {
			b.Fatal("not sealed")
		}
	}
}

func BenchmarkOpen(b *testing.B) {
	tickets := newTickets(b)
	raw := tickets.Seal(room, sampleTicket())
	require.NotEmpty(b, raw)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := tickets.Open(room, raw); err != nil {
			b.Fatal(err)
		}
	}
}
