package admin

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/queuegate/queuegate/queue"
)

// maxBody bounds the body of a request in bytes.
const maxBody = 16 << 10

// read reads a body of JSON into what v points to, and answers the request when it
// is no such thing.
func (c *call) read(v any, example string) bool {
	kind, _, err := mime.ParseMediaType(c.r.Header.Get("Content-Type"))
	if err != nil || kind != "application/json" {
		refuse(c.w, http.StatusUnsupportedMediaType, "media-type", "Send a body of Content-Type application/json such as "+example+".")
		return false
	}
	raw, err := io.ReadAll(http.MaxBytesReader(c.w, c.r.Body, maxBody))
	if tooLong, ok := errors.AsType[*http.MaxBytesError](err); ok {
		refuse(c.w, http.StatusRequestEntityTooLarge, "too-large", fmt.Sprintf("The body is at most %d bytes.", tooLong.Limit))
		return false
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if err == nil {
		err = dec.Decode(v)
	}
	if err == nil && !errors.Is(trailing(dec), io.EOF) {
		err = errors.New("something follows the object")
	}
	if err != nil {
		refuse(c.w, http.StatusBadRequest, "bad-request", "The body must be one object such as "+example+": "+jsonProblem(err)+".")
		return false
	}
	return true
}

func trailing(dec *json.Decoder) error {
	_, err := dec.Token()
	return err
}

// jsonProblem says what is wrong with a body in words for people.
func jsonProblem(err error) string {
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return wrong.Field + " is a " + wrong.Value
	}
	return strings.TrimPrefix(err.Error(), "json: ")
}

// readChange reads what PATCH asks for: a value for each setting to be set, null
// for each whose live value is to be cleared.
func (c *call) readChange() (queue.Change, bool) {
	var body map[queue.Setting]json.RawMessage
	if !c.read(&body, `{"state": "paused", "message": null}`) {
		return queue.Change{}, false
	}
	return c.changeOf(body)
}

// changeOf reads a change out of a body's fields.
func (c *call) changeOf(body map[queue.Setting]json.RawMessage) (queue.Change, bool) {
	change := queue.Change{By: c.by, Set: map[queue.Setting]string{}}
	var errs []FieldProblem
	for name, raw := range body {
		switch {
		case !slices.Contains(queue.AllSettings(), name):
			errs = append(errs, FieldProblem{string(name), "is no setting; there are " + settingNames()})
		case isNull(raw):
			change.Clear = append(change.Clear, name)
		default:
			of, problem := readValue(kinds()[name], raw)
			if problem != "" {
				errs = append(errs, FieldProblem{string(name), problem})
			}
			change.Set[name] = of
		}
	}
	if len(body) == 0 {
		errs = append(errs, FieldProblem{"body", "must change something; there are " + settingNames()})
	}
	slices.SortFunc(errs, func(a, b FieldProblem) int { return strings.Compare(a.Field, b.Field) })
	if version := c.r.Header.Get("If-Match"); version != "" && version != "*" {
		n, err := strconv.ParseInt(strings.Trim(version, `"`), 10, 64)
		if err != nil || n < 1 {
			errs = append(errs, FieldProblem{"If-Match", "must be the version of the room as its ETag tells it"})
		}
		change.Version = n
	}
	if len(errs) > 0 {
		c.bad(errs...)
		return queue.Change{}, false
	}
	slices.Sort(change.Clear)
	return change, true
}

func settingNames() string {
	var names []string
	for _, name := range queue.AllSettings() {
		names = append(names, string(name))
	}
	return strings.Join(names, ", ")
}

// readValue reads one value of a setting, or says what it must be. What else is
// wrong with it the line says.
func readValue(k kind, raw json.RawMessage) (of, problem string) {
	var err error
	switch k {
	case number:
		var n int64
		err, problem = json.Unmarshal(raw, &n), "must be a whole number from 0, or null for the file's"
		of = strconv.FormatInt(n, 10)
	case truth:
		var yes bool
		err, problem = json.Unmarshal(raw, &yes), "must be true or false, or null for the file's"
		of = strconv.FormatBool(yes)
	case duration:
		err, problem = json.Unmarshal(raw, &of), `must be a duration such as "5m", or null for the file's`
	default:
		err, problem = json.Unmarshal(raw, &of), "must be a text, or null for the file's"
	}
	if err != nil {
		return "", problem
	}
	return of, ""
}
