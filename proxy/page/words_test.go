package page

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// ownLocale writes a locale of the operator's: the English one, changed.
func ownLocale(t *testing.T, lang string, change func(map[string]any)) string {
	t.Helper()
	raw, err := locales.ReadFile("locales/en.json")
	require.NoError(t, err)
	var texts map[string]any
	require.NoError(t, json.Unmarshal(raw, &texts))
	texts["lang"] = lang
	change(texts)
	raw, err = json.Marshal(texts)
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, lang+".json"), raw, 0o600))
	return dir
}

// A text that is missing would be an empty line in front of everybody.
func TestALocaleThatIsNotWholeIsRefusedByFileAndKey(t *testing.T) {
	within := func(texts map[string]any, key string) map[string]any { return texts[key].(map[string]any) }
	for _, tt := range []struct {
		name, lang string
		change     func(map[string]any)
		want       string
	}{
		{"a text is missing", "fr", func(m map[string]any) { delete(m, "keep_open") }, "fr.json: keep_open: is missing"},
		{"a state is missing", "fr", func(m map[string]any) { delete(within(m, "states"), "paused") }, "fr.json: states.paused.heading: is missing\nstates.paused.lead: is missing\nstates.paused.title: is missing"},
		{"half a state is missing", "fr", func(m map[string]any) { delete(within(m, "by_lot"), "title") }, "fr.json: by_lot.title: is missing"},
		{"a form of another language is missing", "pl", func(m map[string]any) {}, "pl.json: wait_minutes.few: is missing\nwait_minutes.many: is missing"},
		{"a key is unknown", "fr", func(m map[string]any) { m["keep_opne"] = "x" }, `fr.json: json: unknown field "keep_opne"`},
		{"a state is unknown", "fr", func(m map[string]any) { within(m, "states")["lost"] = map[string]any{} }, "fr.json: states.lost: is no state of the page"},
		{"a number has no place", "fr", func(m map[string]any) { m["number"] = "Numero" }, "fr.json: number: must contain {n}"},
		{"a direction is none", "fr", func(m map[string]any) { m["dir"] = "down" }, `fr.json: dir: must be ltr or rtl, is "down"`},
		{"the language is another one", "fr", func(m map[string]any) { m["lang"] = "de" }, `fr.json: lang: is "de" in the file of "fr"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := New(Options{Languages: []string{"en", tt.lang}, Locales: ownLocale(t, tt.lang, tt.change)})
			require.ErrorContains(t, err, tt.want)
		})
	}
}

func TestLanguagesThatCannotBeOfferedAreRefused(t *testing.T) {
	for _, tt := range []struct {
		o    Options
		want string
	}{
		{Options{Languages: []string{"fr"}}, `page: languages: "fr" does not come with queuegate; put fr.json into the directory of page.locales`},
		{Options{Languages: []string{"../en"}}, `"../en" is not the tag of a language`},
		{Options{Languages: []string{"en"}, DefaultLanguage: "ko"}, `page: default_language: "ko" is none of languages (en)`},
	} {
		_, err := New(tt.o)
		require.ErrorContains(t, err, tt.want)
	}
}

// The texts that come with the page leave nothing untranslated.
func TestNoTextIsTheSameInTwoLanguages(t *testing.T) {
	en, err := load("", "en")
	require.NoError(t, err)
	for _, lang := range []string{"ko", "ja"} {
		w, err := load("", lang)
		require.NoError(t, err)
		a, b := reflect.ValueOf(*en), reflect.ValueOf(*w)
		for i := range a.NumField() {
			key := a.Type().Field(i).Tag.Get("json")
			if key == "" || key == "dir" || key == "wait_title" {
				continue
			}
			require.NotEqual(t, a.Field(i).Interface(), b.Field(i).Interface(), "%s: %s", lang, key)
		}
	}
}

func TestCountedTextsFollowTheirLanguage(t *testing.T) {
	dir := ownLocale(t, "pl", func(m map[string]any) {
		for _, v := range m {
			if f, ok := v.(map[string]any); ok && f["other"] != nil {
				f["few"], f["many"] = "{n} few", "{n} many"
			}
		}
	})
	w, err := load(dir, "pl")
	require.NoError(t, err)
	for n, want := range map[int64]string{0: "nobody yet", 1: "1 person", 2: "2 few", 5: "5 many", 22: "22 few", 10_000_022: "10\u00a0000\u00a0022 few"} {
		require.Equal(t, want, w.counted(w.People, n))
	}
	ko, err := load("", "ko")
	require.NoError(t, err)
	require.Equal(t, "1,234명", ko.counted(ko.People, 1234))
	require.Equal(t, "1명", ko.counted(ko.People, 1))
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
