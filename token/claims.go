package token

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Stage says whether an admission has been taken up.
type Stage string

const (
	// Ready is an admission that was not used yet: its slot is held for the claim
	// window.
	Ready Stage = "ready"

	// Active is an admission in use: its slot is held for the session.
	Active Stage = "active"
)

const (
	// maxLifetime bounds exp - iat. No session is that long, so a token that claims
	// more was not signed for a pass.
	maxLifetime = 400 * 24 * time.Hour

	// maxInteger is the greatest integer that Lua and JavaScript hold exactly.
	maxInteger = 1<<53 - 1
)

// Pass is what an entry token says.
type Pass struct {
	// Room the pass opens (aud) and Admission it is for (jti): 1 to 64 letters,
	// digits and ".", "_", ":", "-".
	Room, Admission string

	// Visitor who was admitted (sub), as ValidVisitor wants it.
	Visitor string

	Stage Stage

	// Place, Generation and Epoch of the place in line the admission was given for.
	Place, Generation, Epoch int64

	// End of the lease in room time, milliseconds. Gates judge by it, without leeway.
	End int64

	// IssuedAt (iat) and Expires (exp) in Redis TIME, for verifiers without room
	// time. Verify returns them in UTC and in whole seconds.
	IssuedAt, Expires time.Time
}

// claims is the JSON of a token. Pointers tell a claim that is missing or null from
// one that is zero; the Go types refuse lists, fractions and numbers in strings.
type claims struct {
	Issuer *string `json:"iss"`

	// Installation is left out by those that have no name of their own.
	Installation string `json:"ins,omitempty"`

	Room       *string `json:"aud"`
	Visitor    *string `json:"sub"`
	Admission  *string `json:"jti"`
	IssuedAt   *int64  `json:"iat"`
	Expires    *int64  `json:"exp"`
	Stage      *Stage  `json:"stage"`
	Place      *int64  `json:"place"`
	Generation *int64  `json:"generation"`
	Epoch      *int64  `json:"epoch"`
	End        *int64  `json:"end"`
}

// origin is who gave a pass.
type origin struct {
	issuer, installation string
}

func encodeClaims(by origin, p Pass) ([]byte, error) {
	return json.Marshal(claims{
		Issuer: &by.issuer, Installation: by.installation, Room: &p.Room, Visitor: &p.Visitor, Admission: &p.Admission,
		IssuedAt: new(p.IssuedAt.Unix()), Expires: new(p.Expires.Unix()),
		Stage: &p.Stage, Place: &p.Place, Generation: &p.Generation, Epoch: &p.Epoch, End: &p.End,
	})
}

// decodeClaims reads the JSON of a token whose signature was checked. The cause of a
// decoding error is left out: it would quote the claim.
func decodeClaims(data []byte) (by origin, p Pass, err error) {
	var c claims
	if json.Unmarshal(data, &c) != nil || !exactNames(data) {
		return origin{}, Pass{}, fmt.Errorf("%w: claims are not JSON of the right names and types", ErrMalformed)
	}
	if c.Issuer == nil || c.Room == nil || c.Visitor == nil || c.Admission == nil || c.IssuedAt == nil ||
		c.Expires == nil || c.Stage == nil || c.Place == nil || c.Generation == nil || c.Epoch == nil || c.End == nil {
		return origin{}, Pass{}, fmt.Errorf("%w: a claim is missing", ErrMalformed)
	}
	p = Pass{
		Room: *c.Room, Visitor: *c.Visitor, Admission: *c.Admission, Stage: *c.Stage,
		Place: *c.Place, Generation: *c.Generation, Epoch: *c.Epoch, End: *c.End,
		IssuedAt: time.Unix(*c.IssuedAt, 0).UTC(), Expires: time.Unix(*c.Expires, 0).UTC(),
	}
	if err := p.check(); err != nil {
		return origin{}, Pass{}, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return origin{*c.Issuer, c.Installation}, p, nil
}

// exactNames reports whether in a JSON object no claim stands there twice, none of ours
// in other letters and none spelled with escapes. Of two equal names encoding/json takes
// the last, and "AUD" for "aud", where another reader takes the first or none. It is
// called for valid JSON only.
func exactNames(data []byte) bool {
	seen := make(map[string]bool, 16)
	depth := 0
	for i := 0; i < len(data); i++ {
		switch data[i] {
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		case '"':
			begin := i + 1
			for i = begin; data[i] != '"'; i++ {
				if data[i] == '\\' {
					i++
				}
			}
			after := bytes.TrimLeft(data[i+1:], " \t\r\n")
			if depth != 1 || !bytes.HasPrefix(after, []byte(":")) {
				continue // a value
			}
			name := string(data[begin:i])
			if seen[name] || strings.Contains(name, `\`) || misspelled(name) {
				return false
			}
			seen[name] = true
		}
	}
	return true
}

// misspelled reports whether encoding/json takes name for a claim of another spelling.
func misspelled(name string) bool {
	for _, claim := range [...]string{
		"iss", "ins", "aud", "sub", "jti", "iat", "exp", "stage", "place", "generation", "epoch", "end",
	} {
		if strings.EqualFold(name, claim) {
			return name != claim
		}
	}
	return false
}

// check is the same for signing and verifying, so that nothing is signed that would
// be refused.
func (p Pass) check() error {
	switch {
	case !identifier(p.Room):
		return errors.New("room must be 1 to 64 letters, digits and ._:-")
	case !identifier(p.Admission):
		return errors.New("admission must be 1 to 64 letters, digits and ._:-")
	case !ValidVisitor(p.Visitor):
		return errors.New("visitor must be 26 characters of A-Z and 2-7")
	case p.Stage != Ready && p.Stage != Active:
		return errors.New("stage must be ready or active")
	case !integer(p.Place) || !integer(p.Generation) || !integer(p.Epoch) || !integer(p.End):
		return errors.New("place, generation, epoch and end must be 0 to 2^53-1")
	case !integer(p.IssuedAt.Unix()):
		return errors.New("issued at must be 1970 or later")
	}
	// In seconds: a time.Duration cannot hold the difference of far away times.
	lifetime := p.Expires.Unix() - p.IssuedAt.Unix()
	if lifetime <= 0 || lifetime > int64(maxLifetime/time.Second) {
		return errors.New("expires must be after issued at, by 400 days at most")
	}
	return nil
}

func integer(n int64) bool { return 0 <= n && n <= maxInteger }

func identifier(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case alphanumeric(c), c == '.', c == '_', c == ':', c == '-':
		default:
			return false
		}
	}
	return 1 <= len(s) && len(s) <= 64
}
