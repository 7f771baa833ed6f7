package config

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/url"
)

// Secret is a text that must not be shown. Whatever prints it (fmt, slog,
// JSON, YAML) gets "(set)", or the empty text when it is empty. Only Reveal
// gives the value. One gap is left: fmt asks no type about %p, which go vet
// refuses for a text.
type Secret string

// secretSet stands for a secret that has a value.
const secretSet = "(set)"

// Reveal gives the value itself.
func (s Secret) Reveal() string { return string(s) }

// String gives "(set)" or the empty text.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return secretSet
}

// GoString hides the value from %#v.
func (s Secret) GoString() string { return fmt.Sprintf("config.Secret(%q)", s.String()) }

// Format hides the value from every verb: fmt prints the bare value for a verb
// that does not fit a text, such as %d, without asking String.
func (s Secret) Format(f fmt.State, verb rune) {
	text := s.String()
	switch {
	case verb == 'v' && f.Flag('#'):
		text = s.GoString()
	case verb == 'q':
		text = fmt.Sprintf("%q", text)
	}
	_, _ = f.Write([]byte(text))
}

// MarshalJSON writes "(set)" or the empty text.
func (s Secret) MarshalJSON() ([]byte, error) { return json.Marshal(s.String()) }

// MarshalYAML writes "(set)" or the empty text.
func (s Secret) MarshalYAML() (any, error) { return s.String(), nil }

// LogValue logs "(set)" or the empty text.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// Address is the URL of Redis without the user and password, for logs; empty
// when there is no URL.
func (r Redis) Address() string {
	if r.URL == "" {
		return ""
	}
	u, err := url.Parse(r.URL.Reveal())
	if err != nil {
		return secretSet
	}
	u.User = nil
	return u.String()
}
