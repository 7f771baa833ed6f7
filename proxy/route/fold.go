package route

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// fold maps all spellings of a letter to one: K, k and the Kelvin sign; S, s and
// the long s; I, i and the two Turkish ones. It joins whatever a shop may join
// that compares in upper or in lower case, which is a little more than Unicode's
// simple folding.
func fold(r rune) rune {
	if r < utf8.RuneSelf {
		if 'A' <= r && r <= 'Z' {
			r += 'a' - 'A'
		}
		return r
	}
	return unicode.ToLower(unicode.ToUpper(r))
}

func foldString(s string) string {
	return strings.Map(fold, s)
}

// foldEqual reports whether s folds to folded, without building the folded text.
func foldEqual(s, folded string) bool {
	for s != "" && folded != "" {
		if c := s[0]; c < utf8.RuneSelf && folded[0] < utf8.RuneSelf {
			if byte(fold(rune(c))) != folded[0] {
				return false
			}
			s, folded = s[1:], folded[1:]
			continue
		}
		a, n := utf8.DecodeRuneInString(s)
		b, m := utf8.DecodeRuneInString(folded)
		if fold(a) != b {
			return false
		}
		s, folded = s[n:], folded[m:]
	}
	return s == folded
}
