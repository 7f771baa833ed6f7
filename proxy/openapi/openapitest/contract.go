// Package openapitest holds real answers of a gate against what its OpenAPI file
// promises, in both directions: an answer that the file does not describe fails, and
// so does a promise that no answer has shown. It is for tests.
package openapitest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"mime"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"
)

// address is that of the description while its schemas are compiled.
const address = "https://contract.test/openapi.json"

// unnamed are headers that HTTP itself explains, or that the text at the beginning of
// the file promises for every answer.
var unnamed = map[string]bool{
	"Connection": true, "Content-Length": true, "Content-Type": true, "Date": true, "Vary": true,
	"X-Content-Type-Options": true, "X-Robots-Tag": true, "Referrer-Policy": true, "X-Request-Id": true,
}

// object is a JSON object.
type object = map[string]any

// Contract is a description and what answers have shown of it. It is safe for use by
// any number of goroutines.
type Contract struct {
	prefix string
	root   object
	schema *jsonschema.Compiler

	mu   sync.Mutex
	seen map[string]bool // places in the description
}

// Exchange is a request and its answer.
type Exchange struct {
	Method, Path string // the path with the gate's prefix, without a query
	Sent         []byte // the body of the request
	Status       int
	Header       http.Header
	Body         []byte
}

// New reads a description and checks that it is OpenAPI 3.1. The gate's own addresses
// begin with prefix.
func New(text []byte, prefix string) (*Contract, error) {
	doc, err := openapi3.NewLoader().LoadFromData(text)
	if err != nil {
		return nil, err
	}
	if err := doc.Validate(context.Background()); err != nil {
		return nil, err
	}
	if !doc.IsOpenAPI31OrLater() || len(doc.Servers) != 1 || doc.Servers[0].URL != prefix {
		return nil, fmt.Errorf("openapitest: not the OpenAPI 3.1 of %s: version %s, servers %v", prefix, doc.OpenAPI, doc.Servers)
	}
	plain, err := doc.MarshalJSON()
	if err != nil {
		return nil, err
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(plain))
	if err != nil {
		return nil, err
	}
	c := &Contract{prefix: prefix, root: value.(object), schema: jsonschema.NewCompiler(), seen: map[string]bool{}}
	c.schema.DefaultDraft(jsonschema.Draft2020)
	c.schema.AssertFormat()
	return c, c.schema.AddResource(address, value)
}

// at returns what stands at a place, and the place it really stands at when there is a
// reference.
func (c *Contract) at(place string) (object, string) {
	var value any = c.root
	for word := range strings.SplitSeq(strings.TrimPrefix(place, "/"), "/") {
		o, _ := value.(object)
		value = o[strings.NewReplacer("~1", "/", "~0", "~").Replace(word)]
	}
	o, _ := value.(object)
	if ref, ok := o["$ref"].(string); ok {
		return c.at(strings.TrimPrefix(ref, "#"))
	}
	return o, place
}

// under is a place one step further down.
func under(place, name string) string {
	return place + "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
}

// show notes that an answer has shown what stands at a place.
func (c *Contract) show(place string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen[place] = true
}

// Check holds one exchange against the description.
func (c *Contract) Check(t testing.TB, x Exchange) {
	t.Helper()
	what := fmt.Sprintf("%s %s: %d %v %s", x.Method, x.Path, x.Status, x.Header, x.Body)
	if x.Method == http.MethodOptions && x.Status == http.StatusNoContent {
		require.NotEmpty(t, x.Header.Get("Access-Control-Allow-Methods"), what)
		return
	}
	response, place := c.response(t, x, what)
	for name := range x.Header {
		if unnamed[name] || strings.HasPrefix(name, "Access-Control-") {
			continue
		}
		c.header(t, response, place, name, x.Header[name], what)
	}
	if len(x.Body) == 0 {
		return
	}
	kind, _, err := mime.ParseMediaType(x.Header.Get("Content-Type"))
	require.NoError(t, err, what)
	content := under(place, "content")
	media, _ := c.at(under(content, kind))
	require.NotNil(t, media, "a body of this kind is not described: %s", what)
	c.show(under(content, kind))
	switch {
	case strings.HasSuffix(kind, "json"):
		c.Value(t, under(under(content, kind), "schema"), x.Body)
	case kind == "text/event-stream":
		c.Events(t, x.Body)
	}
}

// response finds the description of an answer.
func (c *Contract) response(t testing.TB, x Exchange, what string) (object, string) {
	t.Helper()
	path, ok := strings.CutPrefix(x.Path, c.prefix)
	require.True(t, ok, what)
	method := strings.ToLower(x.Method)
	if rest, ok := strings.CutPrefix(path, "/auth"); ok && (rest == "" || rest[0] == '/') {
		path, method = "/auth", "get" // of any method, and with the target behind it
	}
	paths := c.root["paths"].(object)
	if path = described(paths, path); path == "" {
		require.Equal(t, 404, x.Status, what)
		return c.at("/components/responses/Problem")
	}
	item := under("/paths", path)
	if method == "head" {
		method = "get"
	}
	choices, _ := c.at(item)
	if _, known := choices[method]; !known && x.Status == 404 {
		return c.at("/components/responses/Problem")
	} else if !known {
		require.Equal(t, 405, x.Status, "a method that is not described: %s", what)
		for other := range choices {
			c.show(item + "/" + other + "/responses/405")
		}
		return c.at("/components/responses/WrongMethod")
	}
	operation := under(item, method)
	if asked, _ := c.at(operation + "/requestBody/content/application~1json/schema"); asked != nil && len(bytes.TrimSpace(x.Sent)) > 0 && x.Status == 200 {
		c.Value(t, operation+"/requestBody/content/application~1json/schema", x.Sent)
	}
	at := fmt.Sprintf("%s/responses/%d", operation, x.Status)
	response, place := c.at(at)
	if response == nil && (x.Status == http.StatusBadRequest || x.Status == http.StatusRequestURITooLong) {
		return c.at("/components/responses/Problem")
	}
	require.NotNil(t, response, "a status that is not described: %s", what)
	c.show(at)
	return response, place
}

// described is how the description writes a path, with names in braces for what
// differs; empty when it does not know it.
func described(paths object, path string) string {
	if _, exact := paths[path]; exact {
		return path
	}
	words := strings.Split(path, "/")
	for _, known := range slices.Sorted(maps.Keys(paths)) {
		if slices.EqualFunc(strings.Split(known, "/"), words, func(k, w string) bool {
			return k == w || strings.HasPrefix(k, "{") && w != ""
		}) {
			return known
		}
	}
	return ""
}

func (c *Contract) header(t testing.TB, response object, place, name string, values []string, what string) {
	t.Helper()
	described, _ := response["headers"].(object)
	for written := range described {
		if http.CanonicalHeaderKey(written) != name {
			continue
		}
		at := under(under(place, "headers"), written)
		c.show(at)
		_, at = c.at(at)
		for _, v := range values {
			text, err := json.Marshal(v)
			require.NoError(t, err)
			if schema, _ := c.at(under(at, "schema")); schema["type"] == "integer" {
				text = []byte(v)
			}
			c.Value(t, under(at, "schema"), text)
		}
		return
	}
	require.True(t, name == "Cache-Control" && values[0] == "no-store", "the header %s is not described: %s", name, what)
}

// Value holds a JSON text against the schema at a place.
func (c *Contract) Value(t testing.TB, place string, text []byte) {
	t.Helper()
	_, place = c.at(place)
	c.mu.Lock()
	schema, err := c.schema.Compile(address + "#" + strings.NewReplacer("{", "%7B", "}", "%7D").Replace(place))
	c.mu.Unlock()
	require.NoError(t, err)
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	require.NoError(t, err, "%s", text)
	require.NoError(t, schema.Validate(value), "%s", text)
	c.note(place, value)
}

// Events holds server-sent events against the description.
func (c *Contract) Events(t testing.TB, text []byte) {
	t.Helper()
	for line := range strings.Lines(string(text)) {
		if data, ok := strings.CutPrefix(line, "data: "); ok {
			c.Value(t, "/components/schemas/Status", []byte(data))
		}
	}
}

// note marks the properties and choices of a schema that a value shows.
func (c *Contract) note(place string, value any) {
	schema, place := c.at(place)
	if every, ok := schema["allOf"].([]any); ok {
		for _, part := range every {
			if ref, ok := part.(object)["$ref"].(string); ok {
				c.note(strings.TrimPrefix(ref, "#"), value)
			}
		}
	}
	switch value := value.(type) {
	case object:
		properties, _ := schema["properties"].(object)
		for name, v := range value {
			if _, known := properties[name]; known && v != nil {
				at := under(under(place, "properties"), name)
				c.show(at)
				c.note(at, v)
			}
		}
	case []any:
		for _, v := range value {
			c.note(under(place, "items"), v)
		}
	case string:
		if schema["enum"] != nil {
			c.show(under(under(place, "enum"), value))
		}
	}
}

// Unseen lists what the description promises and no answer has shown: statuses, kinds
// of body, headers, properties, and the choices of a value.
func (c *Contract) Unseen() []string {
	promised := map[string]bool{}
	c.walk("", c.root, promised)
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Sorted(maps.Keys(subtract(promised, c.seen)))
}

func subtract(all, some map[string]bool) map[string]bool {
	rest := maps.Clone(all)
	maps.DeleteFunc(rest, func(place string, _ bool) bool { return some[place] })
	return rest
}

// walk collects the promises below a place. Parameters and requests promise nothing of
// answers.
func (c *Contract) walk(place string, value any, promised map[string]bool) {
	o, ok := value.(object)
	if !ok {
		return
	}
	for name, v := range o {
		at := under(place, name)
		switch {
		case name == "parameters" || name == "requestBody" || strings.HasPrefix(place, "/components/headers"):
			continue
		case name == "enum":
			for _, choice := range v.([]any) {
				promised[under(at, choice.(string))] = true
			}
			continue
		case name == "responses" && place != "/components", name == "content", name == "headers" && place != "/components", name == "properties":
			for inner := range v.(object) {
				promised[under(at, inner)] = true
			}
		}
		c.walk(at, v, promised)
	}
}
