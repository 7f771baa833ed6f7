package token_test

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/require"

	"github.com/queuegate/queuegate/token"
)

func newCache(t testing.TB, a *token.Authority, entries int) *token.Cache {
	t.Helper()
	c, err := token.NewCache(a.Verifier, entries)
	require.NoError(t, err)
	return c
}

func TestCacheAnswersAsTheVerifierDoes(t *testing.T) {
	t.Parallel()
	for name, private := range privateKeys(t) {
		a := authority(t, token.Options{PrivateKey: private, Previous: [][]byte{secret}})
		c := newCache(t, a, 0)
		good := sign(t, a, samplePass())
		parts := strings.Split(good, ".")
		hs := sign(t, authority(t, token.Options{Secret: secret}), samplePass())
		tokens := []string{
			good, hs, "", "a.b.c", good + ".", good + "\n", good[:len(good)-1], respelled(good), strings.Repeat("a", 1<<20),
			parts[0] + "." + parts[1] + ".", parts[0] + "." + b64(strings.Replace(part(t, good, 1), "ready", "active", 1)) + "." + parts[2],
			forge(t, jwt.SigningMethodHS512, secret, strings.Replace(part(t, hs, 0), "HS256", "HS512", 1), part(t, hs, 1)),
		}
		for range 3 { // the first time, and remembered
			for i, raw := range tokens {
				for _, in := range []string{room, "drop", ""} {
					want, wantErr := a.Verify(raw, in)
					got, err := c.Verify(raw, in)
					require.Equal(t, want, got, "%s token %d", name, i)
					require.Equal(t, wantErr == nil, err == nil, "%s token %d", name, i)
					if wantErr != nil {
						require.EqualError(t, err, wantErr.Error())
					}
				}
			}
		}
	}
}

// A cache that kept what was refused could be filled by anybody; one that took the part
// before the signature for the token would let everybody in by one good pass.
func TestCacheRemembersGoodTokensAlone(t *testing.T) {
	t.Parallel()
	a := authority(t, token.Options{Secret: secret})
	c := newCache(t, a, 0)
	good := sign(t, a, samplePass())
	_, err := c.Verify(good, room)
	require.NoError(t, err)
	require.Equal(t, 1, token.CacheLen(c))
	cut := strings.LastIndexByte(good, '.')
	for i := range 1000 {
		for _, raw := range []string{
			fmt.Sprintf("%s.%043d", good[:cut], i), fmt.Sprintf("%s%d", good, i), fmt.Sprintf("%d%s", i, good),
		} {
			p, err := c.Verify(raw, room)
			require.Error(t, err, raw)
			require.Zero(t, p)
		}
	}
	require.Equal(t, 1, token.CacheLen(c))
}

func TestCacheIsBoundedInEntriesAndBytes(t *testing.T) {
	t.Parallel()
	const entries, visitors = 2048, 20_000
	a := authority(t, token.Options{Secret: secret})
	c := newCache(t, a, entries)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range visitors {
		p := samplePass()
		p.Admission = strings.Repeat("a", 58) + fmt.Sprintf("%06d", i) // the longest there is
		got, err := c.Verify(sign(t, a, p), room)
		require.NoError(t, err)
		require.Equal(t, p, got)
		require.LessOrEqual(t, token.CacheLen(c), entries)
	}
	require.Greater(t, token.CacheLen(c), entries/4, "it remembers at all")
	runtime.GC()
	runtime.ReadMemStats(&after)
	require.Less(t, int64(after.HeapAlloc)-int64(before.HeapAlloc), int64(entries*2048), "other tests allocate as well")
	runtime.KeepAlive(c)
}

func TestCacheKeepsWhoGoesOnAsking(t *testing.T) {
	t.Parallel()
	a := authority(t, token.Options{Secret: secret})
	c := newCache(t, a, 640)
	raw := sign(t, a, samplePass())
	for i := range 5000 {
		p := samplePass()
		p.Admission = fmt.Sprint(i)
		_, err := c.Verify(sign(t, a, p), room)
		require.NoError(t, err)
		_, err = c.Verify(raw, room)
		require.NoError(t, err)
		require.True(t, token.CacheHolds(c, raw))
	}
}

func TestCacheIsSafeUnderContention(t *testing.T) {
	t.Parallel()
	a := authority(t, token.Options{Secret: secret})
	c := newCache(t, a, 64) // so small that it turns all the time
	raws, want := make([]string, 200), make([]token.Pass, 200)
	for i := range raws {
		want[i] = samplePass()
		want[i].Admission = fmt.Sprint(i)
		raws[i] = sign(t, a, want[i])
	}
	var group sync.WaitGroup
	for g := range 8 {
		group.Go(func() {
			for i := range 2000 {
				n := (i*7 + g*31) % len(raws)
				if p, err := c.Verify(raws[n], room); err != nil || p != want[n] {
					t.Errorf("pass %d: %v %v", n, p, err)
					return
				}
			}
		})
	}
	group.Wait()
}

// A remembered token is judged by the clock each time.
func TestCacheNeverOutlivesATokensEnd(t *testing.T) {
	t.Parallel()
	a := authority(t, token.Options{Secret: secret})
	c := newCache(t, a, 0)
	raw := sign(t, a, samplePass())
	for _, tt := range []struct {
		at   time.Duration
		want error
	}{{80 * time.Second, nil}, {81 * time.Second, token.ErrExpired}, {80 * time.Second, nil}, {time.Hour, token.ErrExpired}} {
		p, err := c.VerifyAt(raw, room, issuedAt.Add(tt.at))
		require.ErrorIs(t, err, tt.want)
		require.Equal(t, tt.want == nil, p == samplePass())
	}
}

func TestCacheRefusesOptionsItCannotWorkWith(t *testing.T) {
	t.Parallel()
	_, err := token.NewCache(nil, 0)
	require.ErrorContains(t, err, "token: cache has no verifier")
	_, err = token.NewCache(authority(t, token.Options{Secret: secret}).Verifier, -1)
	require.ErrorContains(t, err, "token: cache of less than no entries")
}
