package main

import (
	"slices"
)

// figure is what was measured: the median of the rounds, the least and the most.
type figure struct {
	median, least, most float64
	// beside is what else belongs into the table, as absolute numbers.
	beside string
}

// figureOf sums up what the rounds brought, one at least.
func figureOf(rounds []float64) figure {
	sorted := slices.Sorted(slices.Values(rounds))
	n := len(sorted)
	return figure{median: (sorted[(n-1)/2] + sorted[n/2]) / 2, least: sorted[0], most: sorted[n-1]}
}

// exactly is a figure that was measured once.
func exactly(value float64) figure { return figure{median: value, least: value, most: value} }

// ratio compares neighbours: what one side did in a round with what another did
// in the same.
func ratio(a, b []shot, of func(shot) float64) figure {
	quotients := make([]float64, len(a))
	for i := range a {
		quotients[i] = of(a[i]) / of(b[i])
	}
	return figureOf(quotients)
}

// median is that of one side alone.
func median(shots []shot, of func(shot) float64) float64 {
	values := make([]float64, len(shots))
	for i, s := range shots {
		values[i] = of(s)
	}
	return figureOf(values).median
}

func rate(s shot) float64 { return s.rate }
func p99(s shot) float64  { return s.p99 }

// spent is what the meter of a side moved for each request.
func spent(s shot) float64 { return s.metered / s.requests }
