package queue

import (
	"fmt"
	"math"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTheGuideTellsHowOftenALineAsks holds the table of examples/scale-out against
// the intervals that visitors are told.
func TestTheGuideTellsHowOftenALineAsks(t *testing.T) {
	l := deafLine(t)
	guide, err := os.ReadFile("../examples/scale-out/README.md")
	require.NoError(t, err)
	rows := regexp.MustCompile(`(?m)^\| ([\d,]+) \| ([\d,]+) \|$`).FindAllStringSubmatch(string(guide), -1)
	require.Len(t, rows, 3)
	number := func(text string) float64 {
		n, err := strconv.ParseFloat(strings.ReplaceAll(text, ",", ""), 64)
		require.NoError(t, err)
		return n
	}
	for _, row := range rows {
		perSecond := 0.0
		for ahead := range int64(number(row[1])) {
			perSecond += 1 / l.pollFor(ahead).Seconds()
		}
		two := math.Pow(10, math.Floor(math.Log10(perSecond))-1) // the figures are rounded to two places, or three
		require.InDelta(t, perSecond, number(row[2]), two/2, fmt.Sprintf("%s in line", row[1]))
	}
}
