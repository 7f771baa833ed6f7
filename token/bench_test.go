package token_test

import (
	"strconv"
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
		cache := newCache(b, a, 0)
		for kind, verify := range map[string]func(string, string) (token.Pass, error){"each time": a.Verify, "remembered": cache.Verify} {
			b.Run(name+", "+kind, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if _, err := verify(raw, room); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// BenchmarkTicket: every poll opens one; one is sealed when what it says has changed.
func BenchmarkTicket(b *testing.B) {
	tickets, err := token.NewTickets([]byte(secret), "bench")
	require.NoError(b, err)
	k := token.Ticket{Visitor: token.NewVisitor(), Place: 1 << 50, Generation: 1 << 49, Epoch: 1, Seen: 1 << 40, Due: 1 << 40, Ahead: 40_000, First: 50_000}
	raw := tickets.Seal(room, k)
	b.Run("open", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := tickets.Open(room, raw); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("seal", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			tickets.Seal(room, k)
		}
	})
}

// BenchmarkVerifyCrowded: all goroutines at one cache, with a thousand passes.
func BenchmarkVerifyCrowded(b *testing.B) {
	a := authority(b, token.Options{Secret: secret})
	cache := newCache(b, a, 0)
	raws := make([]string, 1000)
	for i := range raws {
		p := samplePass()
		p.Admission = strconv.Itoa(i)
		raws[i] = sign(b, a, p)
	}
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for i := 0; pb.Next(); i++ {
			if _, err := cache.Verify(raws[i%len(raws)], room); err != nil {
				b.Error(err)
			}
		}
	})
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
