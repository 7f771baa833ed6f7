package page_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/text/language"

	"github.com/queuegate/queuegate/proxy/page"
)

// FuzzAcceptLanguage: whatever a browser says, the page is in one of its languages;
// whoever accepts one of them alone gets it, and a wish no page can fulfil in front of
// it changes nothing.
func FuzzAcceptLanguage(f *testing.F) {
	for _, accept := range []string{
		"", "ko", "ja-JP", "fr;q=0.9, ko;q=0.3, ja;q=0.5", "pl", "*", "und", "und, ko;q=0.1", "\x00\xff;;q=,,=", "ko;q=high", "ko-KR;q=x", strings.Repeat("ko,", 300),
		"zh-Hant-TW-x-private", "mul", "root", "en-u-co-phonebk", "i-klingon", "x-y", "ko;q=0", "ja;q=1.0000000000000000000001", "tlh, ja",
	} {
		f.Add(accept, "")
	}
	f.Add("ko", "ja")
	f.Add("ja", `"><script>`)
	own := renderer(f, page.Options{})
	f.Fuzz(func(t *testing.T, accept, chosen string) {
		render := func(accept, chosen string) string {
			v := waiting()
			v.AcceptLanguage, v.Language = accept, chosen
			got, err := own.Render(v)
			require.NoError(t, err)
			require.Contains(t, string(got.Body), `<html lang="`+got.Language+`" dir="ltr">`)
			return got.Language
		}
		offered := []string{"en", "ko", "ja"}
		got := render(accept, "")
		require.Contains(t, offered, got)
		if tags, _, err := language.ParseAcceptLanguage(accept); err == nil && len(tags) == 1 {
			for _, one := range offered {
				if base, sure := tags[0].Base(); sure == language.Exact && base.String() == one {
					require.Equal(t, one, got, "%q alone", accept)
				}
			}
		}
		if len(accept) < 900 && got != "en" {
			require.Equal(t, got, render("tlh, "+accept, ""), "Klingon before %q", accept)
		}
		switch chosenGot := render(accept, chosen); chosen {
		case "en", "ko", "ja":
			require.Equal(t, chosen, chosenGot)
		default:
			require.Equal(t, got, chosenGot, "a choice of %q that there is none of", chosen)
		}
	})
}
