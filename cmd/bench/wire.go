package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// wire is one kept-alive connection that speaks HTTP/1.1 by hand: a crowd on the
// same machine must cost as little as it can beside the gate it asks.
type wire struct {
	conn net.Conn
	r    *bufio.Reader
	host string
	out  []byte
	head []byte
	body []byte
}

// answerPatience is how long one answer may take.
const answerPatience = 30 * time.Second

// heard is an answer; its parts are good until the next question.
type heard struct {
	code       int
	head, body []byte
}

func dial(ctx context.Context, url string) (*wire, error) {
	host := strings.TrimPrefix(url, "http://")
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", host)
	if err != nil {
		return nil, err
	}
	return &wire{conn: conn, r: bufio.NewReaderSize(conn, 8<<10), host: host}, nil
}

func (w *wire) close() { _ = w.conn.Close() }

// ask sends one request without a body and reads the answer. Headers come in pairs;
// a pair without a value is left out.
func (w *wire) ask(method, path string, headers ...string) (heard, error) {
	if err := w.send(method, path, headers...); err != nil {
		return heard{}, err
	}
	h, err := w.readHead()
	if err != nil {
		return h, err
	}
	h.body, err = w.readBody(h)
	return h, err
}

func (w *wire) send(method, path string, headers ...string) error {
	if err := w.conn.SetDeadline(time.Now().Add(answerPatience)); err != nil {
		return err
	}
	w.out = append(w.out[:0], method...)
	w.out = append(append(append(w.out, ' '), path...), " HTTP/1.1\r\nHost: "...)
	w.out = append(w.out, w.host...)
	if method == http.MethodPost {
		w.out = append(w.out, "\r\nContent-Length: 0"...)
	}
	for i := 0; i < len(headers); i += 2 {
		if headers[i+1] != "" {
			w.out = append(append(append(append(w.out, "\r\n"...), headers[i]...), ": "...), headers[i+1]...)
		}
	}
	_, err := w.conn.Write(append(w.out, "\r\n\r\n"...))
	return err
}

func (w *wire) readHead() (heard, error) {
	w.head = w.head[:0]
	for {
		line, err := w.r.ReadSlice('\n')
		if err != nil {
			return heard{}, err
		}
		if len(line) <= 2 {
			break
		}
		w.head = append(w.head, line...)
	}
	h := heard{head: w.head}
	if len(w.head) < len("HTTP/1.1 200") {
		return h, fmt.Errorf("not an answer: %q", w.head)
	}
	var err error
	if h.code, err = strconv.Atoi(string(w.head[9:12])); err != nil {
		return h, fmt.Errorf("not an answer: %q", w.head)
	}
	return h, nil
}

// readBody reads what follows a head.
func (w *wire) readBody(h heard) ([]byte, error) {
	length := h.get("Content-Length")
	if length == "" {
		// Chunks are rare here: the library knows how.
		a, err := http.ReadResponse(bufio.NewReader(io.MultiReader(bytes.NewReader(append(h.head, "\r\n"...)), w.r)), nil)
		if err != nil {
			return nil, err
		}
		defer func() { _ = a.Body.Close() }()
		return io.ReadAll(a.Body)
	}
	n, err := strconv.Atoi(length)
	if err != nil {
		return nil, err
	}
	if cap(w.body) < n {
		w.body = make([]byte, n)
	}
	_, err = io.ReadFull(w.r, w.body[:n])
	return w.body[:n], err
}

// get is the value of a header, which Go's server spells canonically.
func (h heard) get(name string) string {
	at := bytes.Index(h.head, []byte("\n"+name+": "))
	if at < 0 {
		return ""
	}
	rest := h.head[at+len(name)+3:]
	return string(rest[:bytes.IndexByte(rest, '\r')])
}

// standing is as much of the gate's JSON as is looked at here.
type standing struct {
	Status    string `json:"status"`
	RoomState string `json:"room_state"`
	Ahead     *int64 `json:"ahead"`
	PollAfter int64  `json:"poll_after_ms"`
	Ticket    string `json:"ticket"`
	Pass      string `json:"entry_token"`
}

const (
	joinPath   = "/_queue/" + room + "/join"
	statusPath = "/_queue/" + room + "/status"
	ticketName = "X-Queue-Ticket"
	passName   = "X-Entry-Token"
)

// stand asks the gate for a place, or with a ticket where that is.
func (w *wire) stand(ticket string) (standing, error) {
	method, path := http.MethodGet, statusPath
	if ticket == "" {
		method, path = http.MethodPost, joinPath
	}
	h, err := w.ask(method, path, ticketName, ticket)
	if err != nil {
		return standing{}, err
	}
	var s standing
	if err := json.Unmarshal(h.body, &s); err != nil {
		return s, err
	}
	if h.code != http.StatusOK || s.RoomState == "degraded" {
		return s, fmt.Errorf("%s %s: %d: %s", method, path, h.code, h.body)
	}
	if s.Ticket == "" {
		s.Ticket = ticket
	}
	return s, nil
}

// lanes is how many connections visitors use who come before anything is measured.
const lanes = 32

// standInLine has people join, and then has each of them heard from once: their
// tickets are those that were handed out last. Whoever is far back is not asked for
// another sign of life for a minute and a half from here.
func standInLine(ctx context.Context, url string, people int) ([]standing, error) {
	found := make([]standing, people)
	stand := func(w *wire, i int) (err error) {
		found[i], err = w.stand(found[i].Ticket)
		return err
	}
	if err := inLanes(ctx, url, lanes, people, stand); err != nil {
		return nil, err
	}
	return found, inLanes(ctx, url, lanes, people, stand)
}

// inLanes does something n times, over some connections at once.
func inLanes(ctx context.Context, url string, lanes, n int, do func(w *wire, i int) error) error {
	var all sync.WaitGroup
	failed := make([]error, lanes)
	for lane := range lanes {
		all.Go(func() {
			w, err := dial(ctx, url)
			if err != nil {
				failed[lane] = err
				return
			}
			defer w.close()
			for i := lane; i < n && ctx.Err() == nil; i += lanes {
				if failed[lane] = do(w, i); failed[lane] != nil {
					return
				}
			}
		})
	}
	all.Wait()
	return errors.Join(append(failed, ctx.Err())...)
}

// record writes an answer down for the peer that gives it again. What the server
// adds by itself is left out.
func (s *stage) record(name string, h heard) (string, error) {
	a, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(append(bytes.Clone(h.head), "\r\n"...))), nil)
	if err != nil {
		return "", err
	}
	_ = a.Body.Close()
	for _, own := range []string{"Date", "Content-Length", "Connection"} {
		a.Header.Del(own)
	}
	raw, err := json.Marshal(recorded{a.StatusCode, a.Header, h.body})
	if err != nil {
		return "", err
	}
	return s.file(name, string(raw))
}

func readRecorded(file string) (recorded, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return recorded{}, err
	}
	var r recorded
	return r, json.Unmarshal(raw, &r)
}
