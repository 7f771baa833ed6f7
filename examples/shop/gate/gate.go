// Package gate is the shop's word to the waiting room in front of it.
package gate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// ErrUnavailable is returned when the gate cannot say that it has heard.
var ErrUnavailable = errors.New("gate: not heard")

// ReportPath is the route of the shop that the gate asks what is left, exempt from
// the line for the shop's own machines.
const ReportPath = "/orders/stock"

// Options say where the gate is. Fields without a default are required.
type Options struct {
	URL    string       // as people reach it, without a path: http://127.0.0.1:8080
	Prefix string       // of its own routes; /_queue
	Client *http.Client // one with a timeout of 5 s
}

// Client speaks with one gate; any gate of the room will do.
type Client struct {
	base, prefix string
	http         *http.Client
}

// New returns a client. It does not call the gate.
func New(opts Options) (*Client, error) {
	base, err := url.Parse(opts.URL)
	if err != nil || (base.Scheme != "http" && base.Scheme != "https") || base.Host == "" || strings.Trim(base.Path, "/") != "" {
		return nil, fmt.Errorf("gate: address: want http://host:port, got %q", opts.URL)
	}
	if opts.Prefix == "" {
		opts.Prefix = "/_queue"
	}
	if opts.Client == nil {
		opts.Client = &http.Client{Timeout: 5 * time.Second}
	}
	return &Client{base: strings.TrimSuffix(base.String(), "/"), prefix: opts.Prefix, http: opts.Client}, nil
}

// Release gives a pass back: the next person in line gets the slot at once. It
// returns nil when the gate answered that the pass is over, whoever ended it, and an
// error matching [ErrUnavailable] when it has to be said again. Saying it twice
// frees one slot.
func (c *Client) Release(ctx context.Context, room, pass string) error {
	return c.post(ctx, c.prefix+"/"+url.PathEscape(room)+"/release", http.Header{"X-Entry-Token": {pass}})
}

// Report sends a request through the gate to the shop itself, whose answer tells
// the gate what is left.
func (c *Client) Report(ctx context.Context) error { return c.post(ctx, ReportPath, nil) }

func (c *Client) post(ctx context.Context, path string, header http.Header) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+path, http.NoBody)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	for name, values := range header {
		r.Header[name] = values
	}
	answer, err := c.http.Do(r)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	defer func() { _ = answer.Body.Close() }()
	_, _ = io.Copy(io.Discard, io.LimitReader(answer.Body, 64<<10)) // so that the connection can be used again
	if answer.StatusCode/100 != 2 {
		return fmt.Errorf("%w: %s answered %s", ErrUnavailable, path, answer.Status)
	}
	return nil
}
