package proxy

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// handClock is a clock that is moved by hand.
type handClock struct{ at time.Time }

func (c *handClock) now() time.Time { return c.at }

func TestTwentyPollsAtOnceAndTenASecondAfterThat(t *testing.T) {
	clock := &handClock{time.Now()}
	g := newPollGuard(clock.now)
	who := pollKey{ticket: "a"}
	for i := 1; i <= pollBurst; i++ {
		_, hurried, ok := g.allow(who)
		require.True(t, ok, i)
		require.Equal(t, i > pollBurst-pollHurried, hurried, i)
	}
	g.remember(who, statusDoc{Room: "sale", Ticket: "secret"})
	last, hurried, ok := g.allow(who)
	require.False(t, ok)
	require.True(t, hurried)
	require.Equal(t, &statusDoc{Room: "sale"}, last)

	clock.at = clock.at.Add(pollEvery - 1)
	_, _, ok = g.allow(who)
	require.False(t, ok, "one comes back in a tenth of a second")
	clock.at = clock.at.Add(1)
	_, _, ok = g.allow(who)
	require.True(t, ok)
	last, _, ok = g.allow(who)
	require.False(t, ok, "and no more than one")
	require.NotNil(t, last)

	clock.at = clock.at.Add(2 * pollMemory)
	for i := range pollBurst {
		_, _, ok = g.allow(who)
		require.True(t, ok, i)
	}
	last, _, ok = g.allow(who)
	require.False(t, ok)
	require.Nil(t, last, "what was told long ago is forgotten")
}

// The table is far smaller than a crowd that polls in one moment.
func TestNobodyIsTooFastForAnothersPolls(t *testing.T) {
	clock := &handClock{time.Now()}
	g := newPollGuard(clock.now)
	eager := pollKey{ticket: "eager"}
	for range pollBurst {
		g.allow(eager)
	}
	for i := range 4 * pollSets * pollWays {
		_, _, ok := g.allow(pollKey{ticket: strconv.Itoa(i)})
		require.True(t, ok, i)
	}
	_, _, ok := g.allow(eager)
	require.False(t, ok, "who has used most is not the one who makes room")
}

func TestAnswersForTheHurriedAreBounded(t *testing.T) {
	clock := &handClock{time.Now()}
	g := newPollGuard(clock.now)
	for i := range 5 * pollAnswers {
		g.remember(pollKey{ticket: strconv.Itoa(i)}, statusDoc{})
	}
	require.LessOrEqual(t, len(g.told.current)+len(g.told.before), 2*pollAnswers)
	require.NotNil(t, g.told.of(pollKey{ticket: strconv.Itoa(5*pollAnswers - 1)}, 0))
}
