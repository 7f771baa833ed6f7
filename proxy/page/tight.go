package page

import (
	"regexp"
	"strings"
)

// compact drops indentation, empty lines and lines that are nothing but a
// comment; the page is sent a hundred thousand times.
func compact(source string) string {
	var b strings.Builder
	for line := range strings.Lines(source) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "//") || (strings.HasPrefix(line, "/*") && strings.HasSuffix(line, "*/")) {
			continue
		}
		b.WriteString(line)
		b.WriteByte('\n')
	}
	return b.String()
}

// tight takes the air out of the built-in style, where it means nothing.
var tight = strings.NewReplacer(" {\n", "{", " { ", "{", ": ", ":", "; ", ";", ";\n}\n", "}", ";\n", ";", ", ", ",", "; }", "}", " }", "}",
	"}\n", "}", " > ", ">")

var (
	// remark is a comment behind code, or in it.
	remark = regexp.MustCompile(`(?m)\s+// [^'"\n]*$|/\*.*?\*/`)
	// air is the white space of a script that means nothing: around punctuation that
	// is not part of a text.
	air = regexp.MustCompile(`('[^'\n]*'|"[^"\n]*")|\s*([{}();,=<>&|?:+*/-])\s*`)
	// declared is a name that a script gives to something of its own.
	declared = regexp.MustCompile(`\b(?:const|let|function) (\w+)`)
	// named is a name, apart from texts, keys of objects and members.
	named = regexp.MustCompile(`'[^'\n]*'|"[^"\n]*"|[{,]\w+:|\.?\b[A-Za-z]\w*`)
)

// tightScript makes the built-in script small: no air, and a short name for each
// that it declares, the same one everywhere. It knows as much of the language as
// that script uses: every statement ends with a semicolon or brace, each
// declaration has a const or let of its own, and there are no regular expressions.
func tightScript(script string) string {
	script = air.ReplaceAllString(remark.ReplaceAllString(compact(script), ""), "$1$2")
	taken := map[string]bool{}
	for _, name := range named.FindAllString(script, -1) {
		taken[name] = true
	}
	short := map[string]string{}
	next := 0
	for _, m := range declared.FindAllStringSubmatch(script, -1) {
		if short[m[1]] != "" || len(m[1]) == 1 {
			continue
		}
		name := letters(next)
		for ; taken[name]; name = letters(next) {
			next++
		}
		short[m[1]], next = name, next+1
	}
	return named.ReplaceAllStringFunc(script, func(name string) string {
		if s := short[name]; s != "" {
			return s
		}
		return name
	})
}

// letters is the n-th name of letters: a to z, A to Z, then Aa to Zz, of which the
// language has none of its own.
func letters(n int) string {
	const all = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	if n < len(all) {
		return all[n : n+1]
	}
	n -= len(all)
	return all[26+n/len(all)%26:][:1] + all[n%len(all):][:1]
}
