package crowd

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// shopper is somebody who asked for a place at one second, polls every second, is let
// in at a room time with a place, and makes requests with the pass until they give it
// back. at and until are seconds of the run.
type shopper struct {
	n          int
	asked      float64
	in         float64 // 0: never
	place      int64
	granted    int64
	until      float64
	gap        float64 // between two polls, when not 0
	noRelease  bool
	manner     Manner
	firstAhead int64
}

func (s shopper) history() *History {
	h := &History{Person: s.n, Manner: string(s.manner), Began: sec(s.asked), Faithful: true, Outcome: "looked around"}
	if s.manner == "" {
		h.Manner = string(Patient)
	}
	h.Add(Heard{Kind: Page, Sent: sec(s.asked), Got: sec(s.asked + 0.01), Code: 429, Ahead: -1}, true)
	last, ahead := s.in, s.firstAhead
	if last == 0 {
		last = s.until
	}
	every := 1.0
	if s.gap > 0 {
		every = s.gap
	}
	for at := s.asked + 0.1; at < last; at += every {
		h.Add(Heard{Kind: Poll, Sent: sec(at), Got: sec(at + 0.01), Code: 200, Status: "waiting", Ahead: ahead, Next: time.Second}, true)
		ahead = max(0, ahead-1)
	}
	if s.in == 0 {
		return h
	}
	ready := Pass{Visitor: fmt.Sprint("v", s.n), Admission: fmt.Sprintf("%d.%d", s.place, s.granted), Place: s.place, End: s.granted + 5000, Stage: "ready"}
	active := ready
	active.Stage, active.End = "active", s.granted+60_000
	h.Add(Heard{Kind: Poll, Sent: sec(s.in), Got: sec(s.in + 0.01), Code: 200, Status: "ready", Ahead: -1, Passes: []Pass{ready}}, true)
	for at := s.in + 0.1; at < s.until; at++ {
		h.Add(Heard{Kind: Use, Sent: sec(at), Got: sec(at + 0.01), Code: 200, Ahead: -1, Inside: true, With: active, Passes: []Pass{active}}, true)
	}
	if !s.noRelease {
		h.Add(Heard{Kind: Release, Sent: sec(s.until), Got: sec(s.until + 0.01), Code: 200, Ahead: -1, With: active}, true)
	}
	return h
}

// seen is the evidence of a run of some shoppers.
func seen(shoppers ...shopper) *Evidence {
	e := &Evidence{Honoured: time.Second}
	for _, s := range shoppers {
		e.People = append(e.People, s.history())
	}
	return e
}

// fair is a room of one slot with three people who come in one after the other.
func fair() []shopper {
	return []shopper{
		{n: 1, asked: 0, in: 1, place: 100, granted: 1_000, until: 6, firstAhead: 0},
		{n: 2, asked: 0.5, in: 6.5, place: 200, granted: 6_200, until: 12, firstAhead: 1},
		{n: 3, asked: 1.2, in: 12.5, place: 300, granted: 12_300, until: 20, firstAhead: 2},
	}
}

func TestVerdictsSayWhatIsBrokenAndWhatIsNotKnown(t *testing.T) {
	t.Parallel()
	known := Stated{Slots: 1, PerMinute: 30, Burst: 1, SlotsKnown: true, RateKnown: true, BurstKnown: true}
	for name, tc := range map[string]struct {
		people func(all []shopper) []shopper
		spoil  func(e *Evidence)
		stated func(s *Stated)
		late   time.Duration
		of     string
		want   Judgement
		seen   string
	}{
		"a fair room keeps its slots":               {of: OverCapacity, want: Kept, seen: "1 held at once by these people, 1 allowed"},
		"a fair room keeps its rate":                {of: OverRate, want: Kept, seen: "3 in the busiest minute, 30 allowed; burst 1"},
		"a fair room keeps its order":               {of: Inversions, want: Kept},
		"a fair room loses nobody":                  {of: Lost, want: Kept},
		"a fair room's numbers fall":                {of: PlaceGrew, want: Kept},
		"a fair room gives everybody one place":     {of: PlaceChanged, want: Kept},
		"without such a client there is no verdict": {of: BotSlots, want: NotJudged},
		"limits that nobody stated are not judged": {
			stated: func(s *Stated) { s.SlotsKnown = false }, of: OverCapacity, want: NotJudged, seen: "not known (1 held at once)",
		},
		"a rate that nobody stated is not judged": {
			stated: func(s *Stated) { s.RateKnown = false }, of: OverRate, want: NotJudged, seen: "not known",
		},
		"a room without slots has no capacity": {stated: func(s *Stated) { s.Slots = 0 }, of: OverCapacity, want: NotJudged},
		"a room without a rate has none":       {stated: func(s *Stated) { s.PerMinute = 0 }, of: OverRate, want: NotJudged},
		"whom an operator lets in is beside the rate": {
			people: func(all []shopper) []shopper { all[1].granted = 1_001; return all }, stated: func(s *Stated) { s.Admitted = 1 }, of: OverRate, want: NotJudged,
		},
		"two hold the slot at once": {
			people: func(all []shopper) []shopper { all[1].in, all[1].granted = 2, 2_000; return all }, of: OverCapacity, want: Broken, seen: "2 held at once",
		},
		"the gates count more than there are": {stated: func(s *Stated) { s.MostActive = 2 }, of: OverCapacity, want: Broken},
		"after a lowered limit they may": {
			stated: func(s *Stated) { s.MostActive, s.Lowered = 2, true }, of: OverCapacity, want: Kept,
		},
		"the last second of a pass says nothing where the shop may have ended it": {
			people: func(all []shopper) []shopper {
				all[0].noRelease, all[1].in, all[1].granted = true, 5.2, 5_150
				return all
			},
			of: OverCapacity, want: Kept,
		},
		"a pass that nobody took up holds its slot to its end": {
			people: func(all []shopper) []shopper {
				all[0].until, all[0].noRelease, all[1].in, all[1].granted = 1, true, 3, 3_000
				return all
			},
			of: OverCapacity, want: Broken,
		},
		"two come closer than the rate allows": {
			people: func(all []shopper) []shopper { all[1].granted = 2_500; return all }, of: OverRate, want: Broken,
		},
		"two come in the same millisecond where one may": {
			people: func(all []shopper) []shopper { all[1].granted = 1_000; return all }, of: OverRate, want: Broken,
		},
		"without a burst the minute alone is judged": {
			people: func(all []shopper) []shopper { all[1].granted = 1_000; return all },
			stated: func(s *Stated) { s.BurstKnown, s.Burst = false, 0 }, of: OverRate, want: Kept, seen: "the burst is not known",
		},
		"more in a minute than allowed": {
			stated: func(s *Stated) { s.BurstKnown, s.Burst, s.PerMinute = false, 0, 2 }, of: OverRate, want: Broken,
		},
		"the third comes in while the second waits": {
			people: func(all []shopper) []shopper { all[1].in, all[1].granted, all[1].until = 14, 13_900, 15; return all }, of: Inversions, want: Broken,
		},
		"the third comes in while the second, never let in, waits": {
			people: func(all []shopper) []shopper { all[1].in, all[1].place, all[1].until = 0, 0, 20; return all }, of: Inversions, want: Broken,
		},
		"the third comes in while the second is away": {
			people: func(all []shopper) []shopper {
				all[1].in, all[1].granted, all[1].until, all[1].gap = 14, 13_900, 15, 9
				return all
			}, of: Inversions, want: NotJudged,
		},
		"where places are drawn by lot the order of arrival says nothing": {
			people: func(all []shopper) []shopper { all[1].in, all[1].granted, all[1].until = 14, 13_900, 15; return all },
			stated: func(s *Stated) { s.Numberless = true }, of: Inversions, want: NotJudged,
		},
		"who came first has a later place": {
			people: func(all []shopper) []shopper { all[0].place = 900; return all }, of: PlaceChanged, want: Broken,
		},
		"the number ahead grows": {spoil: func(e *Evidence) { e.People[2].Heard[3].Ahead = 9 }, of: PlaceGrew, want: Broken},
		"somebody is lost":       {spoil: func(e *Evidence) { e.People[1].LostPlace = "answered nonsense" }, of: Lost, want: Broken, seen: "1 of 3"},
		"somebody is lost while the tool ran late": {
			spoil: func(e *Evidence) { e.People[1].LostPlace = "answered nonsense" }, late: 2 * time.Second, of: Lost, want: NotJudged, seen: "the tool ran late by 2s",
		},
		"where nobody polled in time there is nothing to say of order": {
			people: func(all []shopper) []shopper {
				for i := range all {
					all[i].gap = 20
				}
				return all
			},
			late: 2 * time.Second, of: Inversions, want: NotJudged, seen: "nobody polled as told",
		},
		"somebody is lost by an operator's hand": {
			spoil: func(e *Evidence) { e.People[1].LostPlace = "answered nonsense" }, stated: func(s *Stated) { s.Reset = true }, of: Lost, want: NotJudged,
		},
		"a lost history parts the holders before and after": {
			people: func(all []shopper) []shopper { all[1].in, all[1].granted = 2, 2_000; return all },
			spoil: func(e *Evidence) {
				for _, h := range e.People[1].Heard {
					for i := range h.Passes {
						h.Passes[i].Epoch = 2
					}
				}
			},
			of: OverCapacity, want: Kept,
		},
		"clients that bring nothing back hold more than a quarter": {
			people: func([]shopper) []shopper { return nil },
			spoil: func(e *Evidence) {
				for n := range 3 {
					pass := Pass{Visitor: fmt.Sprint("b", n), Admission: fmt.Sprintf("%d.%d", 10+n, 100+n), Place: int64(10 + n), End: 9_000, Stage: "ready"}
					e.People = append(e.People, &History{Person: n, Manner: string(Bot), Heard: []Heard{{Kind: Page, Stay: 1, Sent: sec(1), Got: sec(2), Code: 200, Inside: true, Passes: []Pass{pass}}}})
				}
			},
			stated: func(s *Stated) { s.Slots = 8 }, of: BotSlots, want: Broken,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			people, stated := fair(), known
			if tc.people != nil {
				people = tc.people(people)
			}
			e := seen(people...)
			if tc.spoil != nil {
				tc.spoil(e)
			}
			if tc.stated != nil {
				tc.stated(&stated)
			}
			for _, v := range e.Verdicts(stated, Lateness{P99: tc.late, Most: 2 * tc.late}) {
				if v.Name != tc.of {
					continue
				}
				require.Equal(t, tc.want, v.Judgement, "%s\n%s", v.Seen, v.Story)
				require.Contains(t, v.Seen, tc.seen)
				require.Equal(t, tc.want == Broken, v.Story != "")
				return
			}
			t.Fatal("no such verdict")
		})
	}
}

func TestAnHourInLineIsAFewEntriesAndSaysTheSame(t *testing.T) {
	t.Parallel()
	long := []shopper{
		{n: 1, asked: 0, in: 3000, place: 100, granted: 3_000_000, until: 3010},
		{n: 2, asked: 1, in: 2990, place: 200, granted: 2_990_000, until: 3010},
	}
	e := seen(long...)
	require.Less(t, len(e.People[0].Heard), 20)
	require.Equal(t, Broken, e.Verdicts(Stated{}, Lateness{})[2].Judgement, "the first was here all the time")

	late := e.People[0]
	late.Heard = nil
	for at := 0.1; at < 3000; at += 10 { // told to poll every second
		late.Add(Heard{Kind: Poll, Sent: sec(at), Got: sec(at + 0.01), Code: 200, Status: "waiting", Next: time.Second}, true)
	}
	require.Greater(t, len(late.Heard), 250, "who comes late is written down")
	require.NotEqual(t, Broken, e.Verdicts(Stated{}, Lateness{})[2].Judgement)
}

func TestWaitsAreComparedWithTheRangeShown(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		shown Shown
		in    float64
		want  Waits
	}{
		"below a minute, and it was":             {Shown{sec(1), 0, time.Minute}, 40, Waits{Inside: 1}},
		"below a minute, and it was longer":      {Shown{sec(1), 0, time.Minute}, 80, Waits{Longer: 1}},
		"one to two, and it was shorter":         {Shown{sec(1), time.Minute, 2 * time.Minute}, 30, Waits{Shorter: 1}},
		"shorter only by the time between polls": {Shown{sec(1), time.Minute, 2 * time.Minute}, 61.2, Waits{Inside: 1}},
		"never let in, and the time is up":       {Shown{sec(1), 0, time.Minute}, 0, Waits{Longer: 1}},
		"never let in, and the time is not up":   {Shown{sec(1), time.Minute, 2 * time.Minute}, 0, Waits{Open: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := seen(shopper{n: 1, in: tc.in, place: 1, granted: 1, until: max(100, tc.in+1)})
			e.People[0].Shown = []Shown{tc.shown}
			require.Equal(t, tc.want, e.Waits())
		})
	}
}

func TestAWaitIsShownAsTheRangeOfTheQueuePage(t *testing.T) {
	t.Parallel()
	for wait, want := range map[time.Duration][2]time.Duration{
		0:                 {0, time.Minute},
		59 * time.Second:  {0, time.Minute},
		time.Minute:       {time.Minute, 2 * time.Minute},
		4 * time.Minute:   {3 * time.Minute, 5 * time.Minute},
		59 * time.Minute:  {45 * time.Minute, time.Hour},
		time.Hour:         {time.Hour, 1 << 62},
		150 * time.Minute: {2 * time.Hour, 1 << 62},
		30 * time.Hour:    {24 * time.Hour, 1 << 62},
	} {
		from, to := shownRange(wait)
		require.Equal(t, want, [2]time.Duration{from, to}, wait)
	}
}

func TestAPassTellsWhenItWasGiven(t *testing.T) {
	t.Parallel()
	require.EqualValues(t, 1234, Pass{Place: 77, Admission: "77.1234"}.Granted())
	for _, other := range []string{"", "77", "78.1234", "77.x", "77.-4", "x"} {
		require.Zero(t, Pass{Place: 77, Admission: other}.Granted(), other)
	}
	for _, raw := range []string{"", "a.b", "a.b.c", "a.e30.c", "a.eyJqdGkiOiIxIn0.c.d"} {
		_, ok := ReadPass(raw)
		require.False(t, ok, raw)
	}
	p, ok := ReadPass("a.eyJqdGkiOiIxLjIiLCJwbGFjZSI6MX0.c")
	require.True(t, ok)
	require.EqualValues(t, 2, p.Granted())
}

func TestMeterTellsQuantilesToATwentieth(t *testing.T) {
	t.Parallel()
	var m Meter
	require.Zero(t, m.Quantile(0.99))
	for n := range 1000 {
		m.Note(time.Duration(n+1) * time.Millisecond)
	}
	require.EqualValues(t, 1000, m.Count())
	require.InEpsilon(t, 500*time.Millisecond, m.Quantile(0.5), 0.06)
	require.InEpsilon(t, 990*time.Millisecond, m.Quantile(0.99), 0.06)
	require.Equal(t, time.Second, m.Most())
	m.Note(time.Hour * 1000)
	require.Equal(t, 1000*time.Hour, m.Most())
}

func TestPeopleComeByTheirSharesAndCurves(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 1)) //nolint:gosec // habits
	count := map[Manner]int{}
	shares := Shares{Bot: 30, Leaver: 10}
	for range 10_000 {
		count[shares.draw(rng)]++
	}
	require.InDelta(t, 3000, count[Bot], 200)
	require.InDelta(t, 1000, count[Leaver], 150)
	require.InDelta(t, 6000, count[Patient], 300)
	require.Equal(t, "leave=10,bot=30", shares.String())
	require.NoError(t, DefaultShares().Validate())
	for _, bad := range []Shares{{"cat": 1}, {Bot: -1}, {Bot: 60, Leaver: 50}, {Patient: 5}} {
		require.ErrorIs(t, bad.Validate(), ErrOptions)
	}
	early := map[Curve]int{}
	for _, curve := range Curves() {
		for range 1000 {
			at := curve.arrival(rng, 10*time.Second)
			require.GreaterOrEqual(t, at, time.Duration(0))
			require.LessOrEqual(t, at, 10*time.Second)
			if at < time.Second {
				early[curve]++
			}
		}
	}
	require.Greater(t, early[Flash], 700)
	require.InDelta(t, 100, early[Steady], 50)
	require.Less(t, early[Ramp], 40)
}

func TestOnlyThisHostIsAskedUnlessSaidOtherwise(t *testing.T) {
	t.Parallel()
	for host, want := range map[string]bool{
		"127.0.0.1": true, "127.9.9.9": true, "::1": true, "::ffff:127.0.0.1": true, "localhost": true,
		"192.0.2.1": false, "0.0.0.0": false, "::": false, "no.such.name.invalid": false,
	} {
		require.Equal(t, want, IsLoopback(t.Context(), host), host)
	}
	_, err := (Options{Connections: 1, Loopback: true}).transport().DialContext(t.Context(), "tcp", "192.0.2.1:80")
	require.ErrorContains(t, err, "not this host")
	require.False(t, strings.Contains(err.Error(), "timeout"))
}
