package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"
)

// Somebody reads the log in a terminal, and somebody else chose some of its words.
func TestNoControlCharacterGetsIntoTheLogInEitherFormat(t *testing.T) {
	t.Parallel()
	var every strings.Builder
	every.WriteString("price 10 \u20ac \ud55c\uad6d \U0001f3ab ")
	for r := rune(0); r < 0xa1; r++ {
		every.WriteRune(r)
	}
	every.WriteString("\u2028\u2029\u202e\u2066\u200f\ufeff\U000e0001\x1b[2J\u009b31m")
	for _, format := range []string{"json", "text"} {
		var out bytes.Buffer
		log, err := newLog(&out, "info", format)
		require.NoError(t, err)
		log.Info(every.String(), "key", every.String(), "error", jsonError(every.String()))
		text := out.String()
		require.Equal(t, 1, strings.Count(text, "\n"), "one record is one line")
		for _, r := range strings.TrimSuffix(text, "\n") {
			require.True(t, unicode.IsPrint(r), "%s: %U", format, r)
		}
		require.Contains(t, text, "\u20ac \ud55c\uad6d \U0001f3ab", "what can be read stays as it is")
		if format == "json" {
			var record struct{ Msg, Key, Error string }
			require.NoError(t, json.Unmarshal(out.Bytes(), &record))
			require.Equal(t, every.String(), record.Key, "nothing is lost")
			require.Equal(t, every.String(), record.Error)
			require.Equal(t, every.String(), record.Msg)
		}
	}
}

type jsonError string

func (e jsonError) Error() string { return string(e) }
