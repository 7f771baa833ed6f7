package main

import (
	"context"
	"os"
	"time"

	"github.com/queuegate/queuegate/config"
)

const (
	// filesEvery is how often the files are looked at. Their content is compared:
	// what mounts them moves links about, and tells nobody.
	filesEvery = 5 * time.Second
	// filesSettle is how long they must stay as they are before they count: a file
	// that is being written may read like one with a room less.
	filesSettle = time.Second
)

// source is where a configuration is read from, and what tells that it is another.
type source struct {
	path    string
	environ []string
	hangups <-chan os.Signal // read again, now; nil: nobody asks
	seen    config.Print     // of the files as last read
}

func (s source) print() config.Print { return config.Fingerprint(s.path, s.environ) }

// changes calls read, until ctx ends, whenever the files have become others or a
// hangup asks for it; once for each content of them, good or bad.
func (s source) changes(ctx context.Context, read func()) {
	wait := time.NewTimer(filesEvery)
	defer wait.Stop()
	found := s.seen
	for {
		every := filesEvery
		select {
		case <-ctx.Done():
			return
		case <-s.hangups:
			found, s.seen = s.print(), config.Print{}
		case <-wait.C:
			before := found
			if found = s.print(); found != before {
				every = filesSettle
			}
		}
		if every == filesEvery && found != s.seen {
			s.seen = found
			read()
		}
		wait.Reset(every)
	}
}
