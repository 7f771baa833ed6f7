package crowd

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// Manner is how somebody behaves.
type Manner string

// The manners of people. Whoever is of none of the others is patient.
const (
	Patient  Manner = "patient" // waits as long as it takes, goes in, orders, leaves
	Leaver   Manner = "leave"   // gives the place up by the button
	Vanisher Manner = "vanish"  // closes the page and is not heard of again
	Returner Manner = "return"  // closes the page and opens it again a while later
	Reloader Manner = "reload"  // presses reload now and then
	TwoTabs  Manner = "tabs"    // has the page open twice
	Slow     Manner = "slow"    // is on a phone far from any mast
	NoShow   Manner = "noshow"  // waits, and does not take the pass up
	Bot      Manner = "bot"     // keeps no cookies, so that each request is somebody new
)

// Shares are of how many people in a hundred each manner is; the rest is patient.
type Shares map[Manner]int

// DefaultShares are those of a sale as far as anybody has told of one.
func DefaultShares() Shares {
	return Shares{Leaver: 4, Vanisher: 6, Returner: 5, Reloader: 15, TwoTabs: 10, Slow: 10, NoShow: 2, Bot: 3}
}

// Manners lists those that can be given a share.
func Manners() []Manner {
	return []Manner{Leaver, Vanisher, Returner, Reloader, TwoTabs, Slow, NoShow, Bot}
}

// String is the form that a command line takes.
func (s Shares) String() string {
	var parts []string
	for _, m := range Manners() {
		if s[m] > 0 {
			parts = append(parts, fmt.Sprintf("%s=%d", m, s[m]))
		}
	}
	return strings.Join(parts, ",")
}

// Validate reports the first share that cannot be.
func (s Shares) Validate() error {
	sum := 0
	for _, m := range slices.Sorted(maps.Keys(s)) {
		if !slices.Contains(Manners(), m) {
			var names []string
			for _, known := range Manners() {
				names = append(names, string(known))
			}
			return fmt.Errorf("%w: nobody behaves by %q; known are %s", ErrOptions, m, strings.Join(names, ", "))
		}
		if s[m] < 0 || s[m] > 100 {
			return fmt.Errorf("%w: the share of %s must be from 0 to 100, got %d", ErrOptions, m, s[m])
		}
		sum += s[m]
	}
	if sum > 100 {
		return fmt.Errorf("%w: the shares come to %d in a hundred", ErrOptions, sum)
	}
	return nil
}

// draw is the manner of the next one.
func (s Shares) draw(rng *rand.Rand) Manner {
	n := rng.IntN(100)
	for _, m := range Manners() {
		if n -= s[m]; n < 0 {
			return m
		}
	}
	return Patient
}

// Curve is how people arrive.
type Curve string

// The curves.
const (
	Flash  Curve = "flash"  // four of five in the first tenth of the time, as when the doors open
	Ramp   Curve = "ramp"   // ever more
	Steady Curve = "steady" // as many in every second
)

// Curves lists them.
func Curves() []Curve { return []Curve{Flash, Ramp, Steady} }

// arrival draws when somebody comes within a time.
func (c Curve) arrival(rng *rand.Rand, within time.Duration) time.Duration {
	u := rng.Float64()
	switch c {
	case Ramp:
		u = math.Sqrt(u)
	case Flash:
		if rng.IntN(5) > 0 {
			u /= 10
		}
	}
	return time.Duration(u * float64(within))
}
