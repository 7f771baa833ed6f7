package route

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// pattern is a compiled path: the segments a reading must begin with.
type pattern struct {
	segs      []string // folded, unless exactCase
	exact     bool     // nothing may follow
	exactCase bool
}

// compilePath turns a configured path into segments. It takes only what has one
// reading: anything else looks like a rule and matches nothing, or less than it
// seems to.
func compilePath(p string, caseSensitive bool) (pattern, error) {
	switch {
	case !strings.HasPrefix(p, "/"):
		return pattern{}, fmt.Errorf(`%q must start with "/"`, p)
	case !utf8.ValidString(p):
		return pattern{}, fmt.Errorf("%q is not UTF-8", p)
	case strings.Contains(p, "%"):
		return pattern{}, fmt.Errorf("%q is percent-encoded; write the decoded path", p)
	case marksOf(p) != 0:
		return pattern{}, fmt.Errorf(`%q can never match: rules match plain paths without query, fragment, ";", "\", "//", dot segments or a blank or dot at the end of a segment`, p)
	}
	out := pattern{exactCase: caseSensitive}
	for s := range strings.SplitSeq(strings.Trim(p, "/"), "/") {
		if s == "" {
			continue
		}
		if strings.Contains(s, "*") && s != "*" {
			return pattern{}, fmt.Errorf(`%q: "*" stands for one whole segment only`, p)
		}
		if !caseSensitive {
			s = foldString(s)
		}
		out.segs = append(out.segs, s)
	}
	if n := len(out.segs); n > 0 && out.segs[n-1] == "*" {
		return pattern{}, fmt.Errorf(`%q: a path covers everything below it already; leave out the "*" at its end`, p)
	}
	return out, nil
}

func (p pattern) stars() (n int) {
	for _, s := range p.segs {
		if s == "*" {
			n++
		}
	}
	return n
}

// matches reports whether the reading is this path or below it.
func (p pattern) matches(reading string) bool {
	rest := strings.TrimPrefix(reading, "/")
	more := rest != ""
	for _, want := range p.segs {
		if !more {
			return false
		}
		var seg string
		seg, rest, more = strings.Cut(rest, "/")
		switch {
		case want == "*":
			if seg == "" {
				return false
			}
		case p.exactCase:
			if seg != want {
				return false
			}
		case !foldEqual(seg, want):
			return false
		}
	}
	return !p.exact || !more
}

// below reports whether the pattern lies at or below the folded prefix.
func (p pattern) below(prefix []string) bool {
	if len(p.segs) < len(prefix) {
		return false
	}
	for i, want := range prefix {
		if foldString(p.segs[i]) != want {
			return false
		}
	}
	return true
}

// meets reports whether some path is covered by both patterns.
func (p pattern) meets(q pattern) bool {
	for i := range min(len(p.segs), len(q.segs)) {
		a, b := p.segs[i], q.segs[i]
		if a != "*" && b != "*" && foldString(a) != foldString(b) {
			return false
		}
	}
	return true
}

// same reports whether both cover the same paths in at least one spelling.
func (p pattern) same(q pattern) bool {
	if p.exactCase && q.exactCase {
		return slices.Equal(p.segs, q.segs)
	}
	return slices.EqualFunc(p.segs, q.segs, func(a, b string) bool { return foldString(a) == foldString(b) })
}
