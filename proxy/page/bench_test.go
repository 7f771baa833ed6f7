package page_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/queuegate/queuegate/proxy/page"
)

// BenchmarkRender is what the page of somebody who comes to the door costs, without its
// place.
func BenchmarkRender(b *testing.B) {
	r, err := page.New(page.Options{Title: "Concert tickets", ShowNumbers: true})
	require.NoError(b, err)
	v := page.Sample(page.Waiting, "en")
	b.ReportAllocs()
	for b.Loop() {
		got, err := r.Render(v)
		if err != nil {
			b.Fatal(err)
		}
		r.Reuse(got)
	}
}
