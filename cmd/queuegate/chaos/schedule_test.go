package chaos_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/queuegate/queuegate/cmd/queuegate/chaos"
)

func TestTheSameSeedDrawsTheSameTroubles(t *testing.T) {
	t.Parallel()
	for _, topology := range chaos.Topologies() {
		p := chaos.Plan{Seed: 7, Topology: topology, Length: 10 * time.Minute}
		once := chaos.Print(chaos.Schedule(p))
		require.Equal(t, once, chaos.Print(chaos.Schedule(p)))
		p.Seed++
		require.NotEqual(t, once, chaos.Print(chaos.Schedule(p)))
	}
}

func TestLanesHaveOneTroubleAtATimeAndLossesTimeToHeal(t *testing.T) {
	t.Parallel()
	met := map[chaos.Kind]bool{}
	for seed := range uint64(40) {
		for _, topology := range chaos.Topologies() {
			busy, lost := map[chaos.Lane]time.Duration{}, time.Duration(-time.Hour)
			p := chaos.Plan{Seed: seed, Topology: topology, Length: 5 * time.Minute}
			for _, e := range chaos.Schedule(p) {
				require.GreaterOrEqual(t, e.At, busy[e.Lane], "%s", e)
				require.Less(t, e.At, p.Length)
				busy[e.Lane] = e.At + e.For
				met[e.Kind] = true
				if e.Kind.Loses() {
					require.GreaterOrEqual(t, e.At-lost, time.Minute, "%s", e)
					lost = e.At
				}
				require.False(t, p.SparesOneGate() && e.Kind == chaos.GatesKilled)
				require.False(t, topology != chaos.Cluster && e.Kind == chaos.SlotMoved)
			}
		}
	}
	for _, kind := range chaos.Kinds() {
		require.True(t, met[kind], "%s never comes", kind)
	}
}

func TestShortRunsHaveNothingThatTakesLongToHeal(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		for _, e := range chaos.Schedule(chaos.Plan{Seed: seed, Topology: chaos.Alone, Length: 20 * time.Second}) {
			require.NotContains(t, []chaos.Kind{chaos.RedisOlder, chaos.RedisEvicts, chaos.ClockAhead, chaos.ClockBehind}, e.Kind)
		}
	}
}

func TestChosenTroublesAreAllThatCome(t *testing.T) {
	t.Parallel()
	events := chaos.Schedule(chaos.Plan{Seed: 1, Topology: chaos.Alone, Length: time.Minute, Only: []chaos.Kind{chaos.RedisFrozen}})
	require.NotEmpty(t, events)
	for _, e := range events {
		require.Equal(t, chaos.RedisFrozen, e.Kind)
	}
}
