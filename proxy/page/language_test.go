package page_test

import (
	"html"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/queuegate/queuegate/proxy/page"
)

func TestTheLanguageFollowsTheBrowserUnlessItIsChosen(t *testing.T) {
	for _, tt := range []struct{ name, accept, chosen, want string }{
		{"nothing said", "", "", "en"},
		{"one that is offered", "ko", "", "ko"},
		{"of a country", "ja-JP", "", "ja"},
		{"the best of several", "fr;q=0.9, ko;q=0.3, ja;q=0.5", "", "ja"},
		{"none fits", "pl", "", "en"},
		{"anything", "*", "", "en"},
		{"undetermined", "und", "", "en"},
		{"undetermined, then one", "und, ko;q=0.1", "", "ko"},
		{"garbage", "\x00\xff;;q=,,=", "", "en"},
		{"a bad weight", "ko;q=high", "", "en"},
		{"far too long", strings.Repeat("ko,", 22_000), "", "en"},
		{"chosen", "ja", "ko", "ko"},
		{"chosen, not offered", "ja", "fr", "ja"},
		{"chosen garbage", "ja", "\"><script>", "ja"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			v := waiting()
			v.AcceptLanguage, v.Language = tt.accept, tt.chosen
			got, err := renderer(t, page.Options{}).Render(v)
			require.NoError(t, err)
			require.Equal(t, tt.want, got.Language)
			require.Contains(t, string(got.Body), `<html lang="`+tt.want+`" dir="ltr">`)
		})
	}

	v := waiting()
	v.AcceptLanguage = "pl"
	got, err := renderer(t, page.Options{Languages: []string{"en", "ko"}, DefaultLanguage: "ko"}).Render(v)
	require.NoError(t, err)
	require.Equal(t, "ko", got.Language, "the default is not the first")
}

func TestThePageSpeaksKoreanAndJapanese(t *testing.T) {
	for lang, wants := range map[string][]string{
		"ko": {"콘서트 입장을 기다리고 있습니다", "나의 대기 순서 342", "내 뒤에 기다리는 분 4,658명", "예상 대기 시간 약 10~15분", "순서는 30분 동안 유지됩니다"},
		"ja": {"콘서트への入場をお待ちいただいています", "現在の順番 342", "後ろにお待ちの方 4,658人", "予想待ち時間 約10〜15分", "順番は30分間保たれます"},
	} {
		v := waiting()
		v.AcceptLanguage = lang
		body := render(t, page.Options{Title: "콘서트", ShowNumbers: true}, v)
		for _, want := range wants {
			require.Contains(t, seen(t, body), want)
		}
		require.Contains(t, body, "<title>(15"+map[string]string{"ko": "분", "ja": "分"}[lang]+") 콘서트</title>")
	}
}

func TestTheChoiceOfLanguagesKeepsPlaceAndTarget(t *testing.T) {
	v := waiting()
	v.PageURL = "/_queue/checkout?return=%2Forder%3Fa%3D1%262&sent=1"
	body := render(t, page.Options{}, v)
	form := body[strings.Index(body, `<form id="languages"`):strings.Index(body, "</form>")]
	require.Contains(t, form, `action="/_queue/checkout"`)
	require.Contains(t, html.UnescapeString(form), `name="return" value="/order?a=1&2"`)
	require.Contains(t, form, `name="sent" value="1"`)
	require.Contains(t, form, `<strong lang="en">English</strong>`)
	require.Contains(t, form, `<button name="lang" value="ko" lang="ko">한국어</button>`)
	require.NotContains(t, form, "refresh")

	v.RefreshOff = true
	require.Contains(t, render(t, page.Options{}, v), `name="refresh" value="off"`)
	v.PageURL = ""
	require.NotContains(t, render(t, page.Options{}, v), "<form")
	v = waiting()
	require.NotContains(t, render(t, page.Options{Languages: []string{"ko"}}, v), "<form", "nothing to choose")
}

func TestALanguageThatWasChosenStays(t *testing.T) {
	v := waiting()
	v.Language = "ko"
	body := render(t, page.Options{}, v)
	require.Equal(t, "4;url=/_queue/checkout?return=%2Forder&lang=ko", refresh(t, body))
	for _, m := range regexp.MustCompile(`<a [^>]*href="([^"]*)"`).FindAllStringSubmatch(body, -1) {
		require.Contains(t, html.UnescapeString(m[1]), "&lang=ko")
	}
	v.Language = "fr"
	require.NotContains(t, render(t, page.Options{}, v), "lang=fr", "one that is not offered is no choice")
}
