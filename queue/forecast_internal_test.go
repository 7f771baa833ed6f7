package queue

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// seconds are a span's ends.
func seconds(s *Span) []float64 {
	if s == nil {
		return nil
	}
	return []float64{s.From.Seconds(), s.To.Seconds()}
}

func TestForecastOfAChange(t *testing.T) {
	file := Settings{State: Open, Limits: Limits{Slots: 100, PerMinute: 600, Burst: 10}, Session: 5 * time.Minute}.values()
	busy := sight{
		room: Room{State: Open, Waiting: 1200, Holding: 100, Limits: Limits{Slots: 100, PerMinute: 600, Burst: 10}, Flow: 10},
		now:  Controls{Version: 7, File: file}, stay: 10 * time.Second,
	}
	paused := busy
	paused.room.State = Paused
	paused.now.Live = map[Setting]Live{SettingState: {Value: "paused", By: "ana"}}
	bySlots := busy // two a second come free
	bySlots.room.Flow, bySlots.stay = 2, 50*time.Second
	roomy := busy
	roomy.room.Holding, roomy.room.Flow, roomy.room.Waiting = 20, 1, 30
	unknown := bySlots
	unknown.stay = 0
	unmeasured := unknown
	unmeasured.room.Flow = 0
	refused := busy
	refused.refused = true
	tests := []struct {
		name   string
		s      sight
		set    map[Setting]string
		last   []float64
		flow   float64
		atOnce int64
		over   int64
		drain  []float64
	}{
		{"a message changes no wait", busy, map[Setting]string{SettingMessage: "hello"}, []float64{100, 150}, 10, 0, 0, nil},
		{"half the rate is twice the wait", busy, map[Setting]string{SettingPerMinute: "300"}, []float64{200, 300}, 5, 0, 0, nil},
		{"twice the rate does not help where slots bound", bySlots, map[Setting]string{SettingPerMinute: "1200"}, []float64{500, 750}, 2, 0, 0, nil},
		{"twice the slots do where they bound", bySlots, map[Setting]string{SettingSlots: "200"}, []float64{250, 375}, 4, 10, 0, nil},
		{"slots below the rate bound it", busy, map[Setting]string{SettingSlots: "50"}, []float64{205.5, 308.3}, 5, 0, 50, []float64{5.5, 8.3}},
		{"paused nobody can say", busy, map[Setting]string{SettingState: "paused"}, nil, 10, 0, 0, nil},
		{"resumed nobody comes in at once", paused, map[Setting]string{SettingState: "open"}, []float64{100, 150}, 10, 0, 0, nil},
		{"free slots are filled at once, as far as the burst goes", roomy, map[Setting]string{SettingSlots: "200"}, []float64{2.5, 3.8}, 10, 10, 0, nil},
		{"slots go by the measured flow while nobody has given one back", unknown, map[Setting]string{SettingSlots: "200"}, []float64{250, 375}, 4, 10, 0, nil},
		{"drained for how long, when nobody has", unknown, map[Setting]string{SettingSlots: "50"}, nil, 1, 0, 50, nil},
		{"nothing measured, nothing told", unmeasured, map[Setting]string{SettingSlots: "200"}, nil, 0, 10, 0, nil},
		{"a shop that refuses", refused, map[Setting]string{SettingSlots: "200"}, nil, 10, 0, 0, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f, err := tt.s.change(Change{By: "ana", Set: tt.set}, time.Now())
			require.NoError(t, err)
			require.Len(t, seconds(f.Then.Last), len(tt.last))
			require.Len(t, seconds(f.Drain), len(tt.drain))
			require.InDeltaSlice(t, tt.last, seconds(f.Then.Last), 0.1)
			require.InDelta(t, tt.flow, f.Then.Flow, 0.01)
			require.Equal(t, tt.atOnce, f.AtOnce)
			require.Equal(t, tt.over, f.Over)
			require.InDeltaSlice(t, tt.drain, seconds(f.Drain), 0.1)
			require.NotEmpty(t, f.Changes)
			require.EqualValues(t, 7, f.Version)
			if f.Then.Last != nil {
				require.Less(t, f.Then.Typical.To, f.Then.Last.To)
			}
		})
	}
	_, err := busy.change(Change{By: "ana", Set: map[Setting]string{SettingPerMinute: "-1"}}, time.Now())
	require.ErrorIs(t, err, ErrSetting)
}

func TestForecastOfWhatIsDoneOnce(t *testing.T) {
	s := sight{
		room: Room{State: Paused, Waiting: 40, Holding: 95, Limits: Limits{Slots: 100, PerMinute: 600, Burst: 10}, Flow: 10},
		away: new(int64(3)),
	}
	f, err := s.admit(20)
	require.NoError(t, err)
	require.EqualValues(t, 5, f.AtOnce, "so many slots are free")
	require.EqualValues(t, 35, f.Then.Waiting)
	require.EqualValues(t, 100, f.Then.Holding)
	_, err = s.admit(0)
	require.ErrorIs(t, err, ErrSetting)

	f = s.reset()
	require.EqualValues(t, 43, *f.Places, "who is away loses the place, too")
	require.EqualValues(t, 95, f.Passes)
	require.Zero(t, f.Then.Waiting+f.Then.Holding)

	f = s.release(Standing{State: Active})
	require.EqualValues(t, 1, f.Passes)
	require.Zero(t, f.AtOnce, "the room is paused")
	s.room.State = Open
	f = s.release(Standing{State: Ready})
	require.EqualValues(t, 1, f.AtOnce)
	require.EqualValues(t, 95, f.Then.Holding)
	f = s.release(Standing{State: Waiting})
	require.EqualValues(t, 1, *f.Places)
	require.EqualValues(t, 39, f.Then.Waiting)
}

// How long people stay follows from how many hold slots and how many give them back.
func TestForecastMeasuresTheStay(t *testing.T) {
	var points []Point
	at := time.Now()
	for i := range int64(13) { // ten hold a slot, one comes and one goes each second
		points = append(points, Point{At: at.Add(time.Duration(i) * PointEvery), Epoch: 1, Holding: 10, Tally: Tally{Admitted: 5 * i}})
	}
	require.InDelta(t, 10, stayOf(points).Seconds(), 0.01)
	filling := []Point{points[0], points[1]}
	filling[1].Holding = 15
	require.Zero(t, stayOf(filling), "nobody has gone yet")
	lost := append([]Point{}, points...)
	for i := range lost[6:] {
		lost[6+i].Epoch, lost[6+i].Tally.Admitted = 2, int64(5*i)
	}
	require.InDelta(t, 10, stayOf(lost).Seconds(), 0.01, "a loss of history is left out")
	require.Zero(t, stayOf(nil))
}
