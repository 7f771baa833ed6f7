package page

import (
	"strconv"
	"strings"

	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

// mostDigits is how many digits the greatest int64 has.
const mostDigits = 19

// digits is how a language writes whole numbers, as x/text knows it. Its printer takes
// about ten allocations a number, and a page has five, so it is asked once for a number of each
// length: what stands between the digits follows from the length alone.
type digits struct {
	figures [10]string             // 0 to 9
	ones    [mostDigits + 1]string // a number of so many ones
}

func newDigits(tag language.Tag) *digits {
	printer := message.NewPrinter(tag)
	d := &digits{}
	for i := range d.figures {
		d.figures[i] = printer.Sprintf("%d", i)
	}
	for ones, length := int64(1), 1; length <= mostDigits; ones, length = ones*10+1, length+1 {
		d.ones[length] = printer.Sprintf("%d", ones)
	}
	return d
}

// text writes n, which is not negative: 1,234 or 1.234.
func (d *digits) text(n int64) string {
	var raw [mostDigits + 1]byte
	plain := strconv.AppendInt(raw[:0], n, 10)
	var text strings.Builder
	rest := d.ones[len(plain)]
	text.Grow(len(rest))
	for _, figure := range plain {
		between, after, _ := strings.Cut(rest, d.figures[1])
		text.WriteString(between)
		text.WriteString(d.figures[figure-'0'])
		rest = after
	}
	return text.String() + rest
}
