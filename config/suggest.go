package config

import "strings"

// nearest is the candidate that word was probably meant to be, or "" when none
// is near.
func nearest(word string, candidates []string) string {
	best, bestAt := "", len(word)+1
	for _, candidate := range candidates {
		d := distance(strings.ToLower(word), strings.ToLower(candidate))
		near := max(1, max(len(word), len(candidate))*2/5)
		if d <= near && d < bestAt {
			best, bestAt = candidate, d
		}
	}
	return best
}

// elsewhere is the section a misplaced key belongs to, or "" when the key
// exists nowhere or in several places.
func elsewhere(key string) string {
	home := ""
	for _, l := range leaves() {
		if strings.HasSuffix(l.pattern, "."+key) {
			if home != "" {
				return ""
			}
			home = parent(l.pattern)
		}
	}
	return home
}

// distance is how many letters must be changed, added, removed or swapped with
// their neighbour to turn a into b.
func distance(a, b string) int {
	before, row, next := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		next[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			next[j] = min(row[j]+1, next[j-1]+1, row[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				next[j] = min(next[j], before[j-2]+1)
			}
		}
		before, row, next = row, next, before
	}
	return row[len(b)]
}
