package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/queuegate/queuegate/config"
	"github.com/queuegate/queuegate/proxy/admin"
)

const (
	// operatorTimeout bounds one request to the admin listener.
	operatorTimeout = 10 * time.Second
	// mostAnswer bounds an answer in bytes.
	mostAnswer = 4 << 20
)

// operatorClient speaks with the admin listener of a running gate.
type operatorClient struct {
	base, token, by string
	command         string // who asks: "queuegate rooms"
	http            *http.Client
}

// newOperatorClient finds address and token: a flag comes before the configuration
// named by one, and that before the environment.
func newOperatorClient(o *operatorFlags) (*operatorClient, error) {
	listen, token := lookup(o.p.environ, "QUEUEGATE_ADMIN_LISTEN", config.Default().Admin.Listen), ""
	if o.config != "" {
		c, _, err := load(o.config, o.p)
		if err != nil {
			return nil, err
		}
		listen, token = c.Admin.Listen, c.Admin.Token.Reveal()
	}
	if o.admin != "" {
		listen = o.admin
	}
	base, err := operatorURL(listen)
	if err != nil {
		return nil, usageError{fmt.Errorf("%s: %w", o.command, err)}
	}
	switch file := lookup(o.p.environ, "QUEUEGATE_ADMIN_TOKEN_FILE", ""); {
	case o.tokenFile != "":
		token, err = readToken(o.tokenFile)
	case token != "":
	case lookup(o.p.environ, "QUEUEGATE_ADMIN_TOKEN", "") != "":
		token = lookup(o.p.environ, "QUEUEGATE_ADMIN_TOKEN", "")
	case file != "":
		token, err = readToken(file)
	}
	if err != nil {
		return nil, usageError{fmt.Errorf("%s: the admin token: %w", o.command, err)}
	}
	return &operatorClient{
		base: base, token: token, by: o.by, command: o.command, http: &http.Client{Transport: &http.Transport{}, Timeout: operatorTimeout},
	}, nil
}

// operatorURL takes host:port, or a URL where something stands between.
func operatorURL(address string) (string, error) {
	if !strings.Contains(address, "://") {
		return adminURL(address)
	}
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" {
		return "", errors.New("the admin address must be host:port, or an http or https URL without user and query")
	}
	return strings.TrimSuffix(address, "/"), nil
}

func readToken(file string) (string, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	token := strings.TrimSpace(string(raw))
	if token == "" {
		return "", fmt.Errorf("%s is empty", file)
	}
	return token, nil
}

// ask sends one request and returns the body of a good answer. What the gate finds
// wrong with the request is a usage error.
func (c *operatorClient) ask(ctx context.Context, method, path string, body any, header ...string) ([]byte, error) {
	var sent io.Reader
	if body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		sent = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, sent)
	if err != nil {
		return nil, usageError{fmt.Errorf("%s: %w", c.command, err)}
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	if c.by != "" {
		req.Header.Set(admin.OperatorHeader, c.by)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, c.unreachable(err)
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, mostAnswer))
	if err != nil {
		return nil, fmt.Errorf("the answer of %s: %w", c.base, err)
	}
	if resp.StatusCode == http.StatusOK && strings.HasPrefix(resp.Header.Get("Content-Type"), "application/json") {
		return raw, nil
	}
	return nil, c.refused(resp, raw)
}

// unreachable says what to do when nobody answers.
func (c *operatorClient) unreachable(err error) error {
	remedy := "is the gate running, and is this its admin.listen? Name another with --admin, -c or QUEUEGATE_ADMIN_LISTEN"
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("nobody listens at %s: %s", c.base, remedy)
	case errors.Is(err, context.Canceled):
		return err
	case os.IsTimeout(err):
		return fmt.Errorf("no answer from %s within %v: %s", c.base, operatorTimeout, remedy)
	}
	var failed *url.Error
	if errors.As(err, &failed) { // it repeats the whole address
		err = failed.Err
	}
	return fmt.Errorf("%s: %w: %s", c.base, err, remedy)
}

// refused makes an error of an answer that is no success.
func (c *operatorClient) refused(resp *http.Response, raw []byte) error {
	var p admin.Problem
	if json.Unmarshal(raw, &p) != nil || !strings.HasPrefix(p.Type, "urn:queuegate:problem:") {
		return fmt.Errorf("%s answers %s, and not as a gate's admin listener does: is the address right?", c.base, resp.Status)
	}
	switch {
	case resp.StatusCode == http.StatusUnauthorized && c.token == "":
		return fmt.Errorf("%s asks for the admin token: give it by QUEUEGATE_ADMIN_TOKEN, QUEUEGATE_ADMIN_TOKEN_FILE, --token-file or -c", c.base)
	case resp.StatusCode == http.StatusUnauthorized:
		return fmt.Errorf("%s does not take this admin token", c.base)
	case resp.StatusCode == http.StatusBadRequest && len(p.Errors) > 0:
		lines := make([]string, len(p.Errors))
		for i, e := range p.Errors {
			lines[i] = fmt.Sprintf("%s: %s: %s", c.command, shown(e.Field), shown(e.Detail))
		}
		return usageError{errors.New(strings.Join(lines, "\n"))}
	case resp.StatusCode == http.StatusBadRequest:
		return usageError{fmt.Errorf("%s: %s", c.command, shown(p.Detail))}
	case resp.Header.Get("Retry-After") != "":
		return fmt.Errorf("%s (try again after %s s)", shown(p.Detail), shown(resp.Header.Get("Retry-After")))
	default:
		return errors.New(shown(p.Detail))
	}
}
