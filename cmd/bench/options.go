package main

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// options say what is measured, with what, and where it goes.
type options struct {
	gate     string // program
	caddy    string // program, "" when there is none
	lineTest string // program, "" when there is none
	out      string // folder
	only     string // families, separated by commas; "" means all
	readme   string // file, "" for none
	size
}

// size is how much is measured.
type size struct {
	name    string
	rounds  int           // how often each side has its turn
	turn    time.Duration // how long a turn is
	passes  int           // visitors who are inside, one request after the other
	tickets int           // visitors far back in line
	streams int           // streams open at once
	turns   int           // slots given on, one after the other
	long    int           // people in the long line; the short one has 10,000, or as many
	calls   int           // script calls of each kind on the lines
}

func fullSize() size {
	return size{
		name: "full", rounds: 8, turn: time.Second, passes: 200, tickets: 100_000, streams: 15_000,
		turns: 400, long: 2_000_000, calls: 300,
	}
}

func shortSize() size {
	return size{
		name: "short", rounds: 5, turn: 400 * time.Millisecond, passes: 100, tickets: 10_000, streams: 3_000,
		turns: 100, long: 200_000, calls: 50,
	}
}

func tinySize() size {
	return size{
		name: "tiny", rounds: 1, turn: 100 * time.Millisecond, passes: 4, tickets: 600, streams: 20,
		turns: 5, long: 1000, calls: 3,
	}
}

func (o options) check() error {
	for name := range strings.SplitSeq(o.only, ",") {
		if name != "" && !slices.ContainsFunc(families(), func(f family) bool { return f.name == name }) {
			return usageError{fmt.Errorf("-only: no %q; there are %s", name, familyNames())}
		}
	}
	return nil
}

// wants tells whether a family is to be measured.
func (o options) wants(name string) bool {
	return o.only == "" || slices.Contains(strings.Split(o.only, ","), name)
}

func familyNames() string {
	var names []string
	for _, f := range families() {
		names = append(names, f.name)
	}
	return strings.Join(names, ",")
}
