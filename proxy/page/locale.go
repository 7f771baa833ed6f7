package page

import (
	"bytes"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"golang.org/x/text/feature/plural"
	"golang.org/x/text/language"
)

//go:embed locales/*.json
var locales embed.FS

// defaultLanguages are those that come with the page; the first is the one for
// whom nothing fits.
var defaultLanguages = []string{"en", "ko", "ja"}

// maxAccept bounds the Accept-Language header that is looked at, in bytes. What
// browsers send is a tenth of it.
const maxAccept = 1024

// languages are the languages of one page.
type languages struct {
	all     []*words
	matcher language.Matcher
}

// newLanguages loads what o asks for. The default language comes first.
func newLanguages(o Options) (*languages, error) {
	names := slices.Clone(o.Languages)
	if len(names) == 0 {
		names = slices.Clone(defaultLanguages)
	}
	first := o.DefaultLanguage
	if first == "" {
		first = names[0]
	}
	at := slices.Index(names, first)
	if at < 0 {
		return nil, fmt.Errorf("page: default_language: %q is none of languages (%s)", first, strings.Join(names, ", "))
	}
	l := &languages{}
	var errs []error
	var tags []language.Tag
	for _, name := range names {
		w, err := load(o.Locales, name)
		if err == nil {
			err = w.fit(o)
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		l.all, tags = append(l.all, w), append(tags, w.tag)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	// The matcher answers with the first where nothing fits.
	l.all[0], l.all[at], tags[0], tags[at] = l.all[at], l.all[0], tags[at], tags[0]
	l.matcher = language.NewMatcher(tags)
	return l, nil
}

// choose returns the language a visitor has chosen, or else the one that fits
// what the browser accepts, or else the default.
func (l *languages) choose(chosen, accept string) *words {
	if w := l.named(chosen); w != nil {
		return w
	}
	if len(accept) > maxAccept {
		return l.all[0]
	}
	accepted, _, err := language.ParseAcceptLanguage(accept)
	if err != nil {
		return l.all[0]
	}
	// "*" and "und" are no wish.
	accepted = slices.DeleteFunc(accepted, func(t language.Tag) bool {
		base, confidence := t.Base()
		return confidence < language.High || base.String() == "mul"
	})
	if len(accepted) == 0 {
		return l.all[0]
	}
	_, i, confidence := l.matcher.Match(accepted...)
	if confidence == language.No {
		return l.all[0]
	}
	return l.all[i]
}

// named returns the language of that name, nil when there is none.
func (l *languages) named(name string) *words {
	for _, w := range l.all {
		if w.Lang == name {
			return w
		}
	}
	return nil
}

// load reads one locale: the operator's when dir has one, else the one that comes
// with the page. Every text must be there, for a missing one would be an empty
// line in front of everybody.
func load(dir, lang string) (*words, error) {
	tag, err := language.Parse(lang)
	if err != nil || strings.ContainsAny(lang, `/\`) {
		return nil, fmt.Errorf("page: languages: %q is not the tag of a language, such as en or pt-BR", lang)
	}
	file := path.Join("locales", lang+".json")
	raw, err := locales.ReadFile(file)
	if dir != "" {
		own := filepath.Join(dir, lang+".json")
		switch text, ownErr := os.ReadFile(own); {
		case ownErr == nil:
			file, raw, err = own, text, nil
		case !errors.Is(ownErr, fs.ErrNotExist) || err != nil:
			return nil, fmt.Errorf("page: locale: %w", ownErr)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("page: languages: %q does not come with queuegate; put %s.json into the directory of page.locales", lang, lang)
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	w := &words{}
	if err := dec.Decode(w); err != nil {
		return nil, fmt.Errorf("page: locale: %s: %w", file, err)
	}
	w.tag, w.digits = tag, newDigits(tag)
	if err := w.complete(lang); err != nil {
		return nil, fmt.Errorf("page: locale: %s: %w", file, err)
	}
	return w, nil
}

// placeholders are what some texts are nothing without.
var placeholders = map[string]string{
	"number": "{n}", "short_minutes": "{n}", "short_hours": "{n}",
	"hold": "{hold}", "turn_ends": "{hold}", "checked": "{time}", "wait_title": "{wait}",
}

// complete names every text that is missing.
func (w *words) complete(lang string) error {
	var errs []error
	miss := func(key string) { errs = append(errs, fmt.Errorf("%s: is missing", key)) }
	if w.Lang != lang {
		errs = append(errs, fmt.Errorf("lang: is %q in the file of %q", w.Lang, lang))
	}
	if w.Dir != "ltr" && w.Dir != "rtl" {
		errs = append(errs, fmt.Errorf("dir: must be ltr or rtl, is %q", w.Dir))
	}
	v := reflect.ValueOf(*w)
	for i := range v.NumField() {
		key := v.Type().Field(i).Tag.Get("json")
		if key == "" {
			continue
		}
		switch text := v.Field(i).Interface().(type) {
		case string:
			switch need := placeholders[key]; {
			case text == "":
				miss(key)
			case !strings.Contains(text, need):
				errs = append(errs, fmt.Errorf("%s: must contain %s", key, need))
			}
		case state:
			text.complete(key, miss)
		case forms:
			text.complete(key, w.tag, miss)
		}
	}
	known := order()
	for _, s := range known {
		w.States[s].complete("states."+string(s), miss)
	}
	for s := range w.States {
		if !slices.Contains(known, s) {
			errs = append(errs, fmt.Errorf("states.%s: is no state of the page", s))
		}
	}
	return errors.Join(errs...)
}

func (s state) complete(key string, miss func(string)) {
	for _, text := range [][2]string{{"heading", s.Heading}, {"lead", s.Lead}, {"title", s.Title}} {
		if text[1] == "" {
			miss(key + "." + text[0])
		}
	}
}

// complete misses the forms that whole numbers have in a language.
func (f forms) complete(key string, tag language.Tag, miss func(string)) {
	names := map[plural.Form]string{
		plural.Zero: "zero", plural.One: "one", plural.Two: "two", plural.Few: "few", plural.Many: "many", plural.Other: "other",
	}
	missed := map[plural.Form]bool{plural.Other: f.Other == ""}
	for n := range 200 {
		if n == 0 && f.None != "" {
			continue
		}
		p := plural.Cardinal.MatchPlural(tag, n, 0, 0, 0, 0)
		missed[p] = f.form(p) == ""
	}
	for _, p := range []plural.Form{plural.Zero, plural.One, plural.Two, plural.Few, plural.Many, plural.Other} {
		if missed[p] {
			miss(key + "." + names[p])
		}
	}
}
