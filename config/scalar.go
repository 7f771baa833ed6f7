package config

import (
	"fmt"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// maxInt bounds every number of the configuration: far above any sane value,
// far below what arithmetic on it could overflow.
const maxInt = 1_000_000_000

// maxQuoted is how much of a bad value a message quotes.
const maxQuoted = 60

var (
	wholeNumber  = regexp.MustCompile(`^-?(0|[1-9][0-9]*)$`)
	bareNumber   = regexp.MustCompile(`^[+-]?[0-9][0-9_]*(\.[0-9]*)?$`)
	trailingLine = regexp.MustCompile(`\r?\n$`)
)

// parseScalar reads text as a value of type t. The second result is what is
// wrong with it, empty when nothing is; it quotes the text unless t is Secret.
func parseScalar(t reflect.Type, text string) (any, string) {
	switch {
	case t == secretType:
		return Secret(trailingLine.ReplaceAllString(text, "")), ""
	case t == durationType:
		return parseDuration(text)
	case t.Kind() == reflect.Bool:
		if text == "true" || text == "false" {
			return text == "true", ""
		}
		return nil, "must be true or false" + got(text)
	case t.Kind() == reflect.Int:
		return parseInt(text)
	case !utf8.ValidString(text):
		return nil, "must be UTF-8 text"
	default:
		return text, ""
	}
}

func parseInt(text string) (any, string) {
	if !wholeNumber.MatchString(text) {
		return nil, "must be a whole number, digits only" + got(text)
	}
	n, err := strconv.Atoi(text)
	if err != nil || n > maxInt || n < -maxInt {
		return nil, fmt.Sprintf("must be at most %d%s", maxInt, got(text))
	}
	return n, ""
}

func parseDuration(text string) (any, string) {
	if bareNumber.MatchString(text) {
		return nil, fmt.Sprintf("needs a unit; write %ss, %sm or %sms%s", text, text, text, got(text))
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return nil, "must be a duration such as 500ms, 90s, 5m or 2h" + got(text)
	}
	return d, ""
}

// got quotes a bad value, shortened.
func got(text string) string { return " (got " + quote(text) + ")" }

func quote(text string) string {
	if len(text) > maxQuoted {
		text = strings.ToValidUTF8(text[:maxQuoted], "") + "..."
	}
	return strconv.Quote(text)
}
