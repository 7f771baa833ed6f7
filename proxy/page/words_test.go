package page

import (
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A text that is missing would be an empty line in front of everybody.
func TestLocaleIsComplete(t *testing.T) {
	files, err := locales.ReadDir("locales")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, f := range files {
		lang := strings.TrimSuffix(f.Name(), ".json")
		w, err := load(lang, "")
		require.NoError(t, err)
		require.Equal(t, lang, w.Lang)
		require.Equal(t, w.ThisShop, w.Shop)
		v := reflect.ValueOf(w)
		for i := range v.NumField() {
			if v.Field(i).Kind() == reflect.String {
				require.NotEmpty(t, v.Field(i).String(), "%s: %s", lang, v.Type().Field(i).Name)
			}
		}
		require.Len(t, w.States, len(order()))
		for _, s := range order() {
			require.NotEmpty(t, w.States[s].Heading, s)
			require.NotEmpty(t, w.States[s].Lead, s)
			require.NotEmpty(t, w.States[s].Title, s)
		}
		for _, s := range []state{w.ByLot, w.NoLine, w.Crowded} {
			require.NotEmpty(t, s.Heading)
			require.NotEmpty(t, s.Lead)
			require.NotEmpty(t, s.Title)
		}
		for _, p := range []plural{w.People, w.Places, w.HoldSeconds, w.HoldMinutes, w.HoldHours} {
			require.NotEmpty(t, p.One)
			require.Contains(t, p.Other, "{n}")
		}
		require.Contains(t, w.Number, "{n}")
		require.Contains(t, w.Checked, "{time}")
		require.Contains(t, w.Hold, "{hold}")
		require.Contains(t, w.WaitTitle, "{wait}")
		require.Zero(t, w.WaitSteps[len(w.WaitSteps)-1].Under, "the last range has no end")
		for i := 1; i < len(w.WaitSteps)-1; i++ {
			require.Greater(t, w.WaitSteps[i].Under, w.WaitSteps[i-1].Under)
		}
	}
}

func TestLocaleWithAnUnknownNameIsAnError(t *testing.T) {
	_, err := load("xx", "")
	require.ErrorContains(t, err, "page: locale xx")
}

// Whatever the script reads must be in the page.
func TestScriptFindsItsParts(t *testing.T) {
	for _, m := range regexp.MustCompile(`(?:byId|put|show)\('([a-z-]+)'`).FindAllStringSubmatch(pageScript, -1) {
		require.Contains(t, pageTemplate, `id="`+m[1]+`"`)
	}
	texts := reflect.TypeFor[scriptWords]()
	known := map[string]bool{}
	for i := range texts.NumField() {
		known[texts.Field(i).Tag.Get("json")] = true
	}
	for _, m := range regexp.MustCompile(`words\.([a-z_]+)`).FindAllStringSubmatch(pageScript, -1) {
		require.True(t, known[m[1]], "words.%s", m[1])
	}
	for _, m := range regexp.MustCompile(`\{\{\.When "([a-z_ ]+)"\}\}`).FindAllStringSubmatch(pageTemplate, -1) {
		for _, s := range strings.Fields(m[1]) {
			require.Contains(t, order(), State(s))
		}
	}
	require.NotContains(t, pageScript, "</script")
	require.NotContains(t, pageScript, "`", "lines are trimmed: no template literals")
	require.NotContains(t, pageStyle, "</style")
}
