package route

import (
	"testing"
	"unicode"
)

// Rules fold once when they are compiled and readings while they are compared, so
// all letters that any comparison without case joins must fold to one.
func TestFoldJoinsWhatCaseJoins(t *testing.T) {
	for r := rune(0); r <= unicode.MaxRune; r++ {
		for _, other := range []rune{unicode.SimpleFold(r), unicode.ToLower(r), unicode.ToUpper(r), unicode.ToTitle(r)} {
			if fold(other) != fold(r) {
				t.Errorf("%U folds to %U, but %U to %U", r, fold(r), other, fold(other))
			}
		}
		if fold(fold(r)) != fold(r) {
			t.Errorf("folding %U twice gives %U, once %U", r, fold(fold(r)), fold(r))
		}
	}
}
