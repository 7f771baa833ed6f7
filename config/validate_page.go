package config

import (
	"regexp"
	"slices"
	"strings"
)

var (
	languageTag = regexp.MustCompile(`^[A-Za-z]{2,3}(-[A-Za-z0-9]{2,8})*$`)
	colour      = regexp.MustCompile(`^#([0-9a-fA-F]{3}|[0-9a-fA-F]{6})$`)
)

// page checks what can be said of the queue page without its files.
func (k *checker) page(key string, r Room) {
	p := r.Page
	if p.Accent != "" && !colour.MatchString(p.Accent) {
		k.fail(key+".accent", "must be a colour such as \"#14599f\", in quotes because of the #%s", got(p.Accent))
	}
	if path, ok := strings.CutPrefix(p.Logo, "shop:"); ok && (!strings.HasPrefix(path, "/") || strings.HasPrefix(path, "//") || strings.ContainsAny(path, "\\ ")) {
		k.fail(key+".logo", "must be a file, or shop: and a path of the shop, as shop:/logo.svg%s", got(p.Logo))
	}
	if strings.Contains(p.Logo, "://") {
		k.fail(key+".logo", "must be a file, or a path of the shop as shop:/logo.svg: the page loads nothing from elsewhere%s", got(p.Logo))
	}
	k.languages(key, p)
	for i, origin := range p.FrameAncestors {
		if origin != "self" {
			k.origin(index(key+".frame_ancestors", i), origin)
		}
	}
	if len(p.FrameAncestors) > 0 && r.Cookie.SameSite != SameSiteNone && slices.ContainsFunc(p.FrameAncestors, func(o string) bool { return o != "self" }) {
		k.warn(key+".frame_ancestors", "has other sites, in whose frames browsers bring no cookie back unless cookie.same_site is none")
	}
}

func (k *checker) languages(key string, p Page) {
	if len(p.Languages) == 0 {
		k.fail(key+".languages", "at least one language is required, such as en")
	}
	for i, lang := range p.Languages {
		switch {
		case !languageTag.MatchString(lang):
			k.fail(index(key+".languages", i), "must be the tag of a language, such as en or pt-BR%s", got(lang))
		case slices.Index(p.Languages, lang) < i:
			k.fail(index(key+".languages", i), "stands there twice; remove one%s", got(lang))
		}
	}
	if len(p.Languages) > 0 && !slices.Contains(p.Languages, p.DefaultLanguage) {
		k.fail(key+".default_language", "must be one of languages (%s)%s", strings.Join(p.Languages, ", "), got(p.DefaultLanguage))
	}
}
