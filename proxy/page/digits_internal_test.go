package page

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

// Languages group by thousands, by thousands and hundreds, or not, and have digits of
// their own.
func TestNumbersAreWrittenAsTheirLanguageWritesThem(t *testing.T) {
	for _, name := range []string{"en", "ko", "ja", "de", "de-CH", "fr", "es", "pl", "hi", "bn", "ar", "ar-EG", "fa", "mr", "my", "pt-PT", "en-IN", "und"} {
		tag := language.MustParse(name)
		d, printer := newDigits(tag), message.NewPrinter(tag)
		numbers := []int64{0, 1, 9, 10, 11, 999, 1000, 9999, 10_000, 99_999, 100_000, 1_234_567, 1_000_000_000, math.MaxInt64}
		for range 200 {
			numbers = append(numbers, rand.Int64()>>rand.IntN(63))
		}
		for _, n := range numbers {
			require.Equal(t, printer.Sprintf("%d", n), d.text(n), "%s", name)
		}
	}
	require.Equal(t, "12,34,567", newDigits(language.MustParse("hi")).text(1_234_567))
}
