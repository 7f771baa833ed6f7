package config

import (
	"errors"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

var (
	plainKey = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)
	yamlLine = regexp.MustCompile(`^(?:yaml: )?(?:line ([0-9]+): )?`)
)

// maxKey is the longest unknown key a message shows. It is below the length of
// any secret, so that a secret that slipped into the place of a key stays
// hidden.
const maxKey = 31

// decode lays the YAML document data over c. It reads the node tree itself and
// not through the struct decoder of the library: that one stops at structure
// errors, quotes values that may be secrets, reads 1.9 as 1 and "yes" as true,
// and knows lines but not key paths.
func (l *loader) decode(data []byte, c *Config) {
	dec := yaml.NewDecoder(strings.NewReader(string(data)))
	var doc yaml.Node
	if err := dec.Decode(&doc); err != nil {
		if errors.Is(err, io.EOF) {
			l.whole("is empty; a configuration needs at least rooms")
			return
		}
		l.syntax(err)
		return
	}
	var second yaml.Node
	if err := dec.Decode(&second); err == nil {
		l.whole("holds more than one YAML document; keep one and remove the \"---\" between them")
	} else if !errors.Is(err, io.EOF) {
		l.syntax(err)
	}
	root := doc.Content[0]
	if isNull(root) {
		l.whole("is empty; a configuration needs at least rooms")
		return
	}
	l.value("", root, reflect.ValueOf(c).Elem())
}

// syntax reports an error of the YAML parser. A message that quotes part of
// the text is replaced: that part may belong to a secret.
func (l *loader) syntax(err error) {
	text := err.Error()
	at := yamlLine.FindStringSubmatch(text)
	line := 0
	if at[1] != "" {
		_, _ = fmt.Sscan(at[1], &line)
	}
	text = text[len(at[0]):]
	if strings.ContainsAny(text, "'`\"") && !strings.Contains(text, "expected") {
		text = "an anchor, tag or value that cannot be read; put the value in quotes"
	}
	l.problems = append(l.problems, Problem{File: l.file, Line: line, Message: "not YAML: " + text})
	l.broken = true
}

// value reads node into out, which holds the default, and remembers the line.
func (l *loader) value(path string, node *yaml.Node, out reflect.Value) {
	if _, known := l.lines[path]; !known {
		l.lines[path] = node.Line
	}
	switch {
	case node.Kind == yaml.AliasNode || node.Anchor != "":
		l.wrong(path, "anchors and aliases (& and *) are not supported; write the value out")
	case node.Style&yaml.TaggedStyle != 0:
		l.wrong(path, "tags (!) are not supported; remove the tag")
	case isNull(node):
		l.wrong(path, "has no value; give one or remove the key")
	case out.Kind() == reflect.Struct:
		l.mapping(path, node, out)
	case out.Kind() == reflect.Slice:
		l.sequence(path, node, out)
	default:
		l.scalar(path, node, out)
	}
}

func (l *loader) mapping(path string, node *yaml.Node, out reflect.Value) {
	if node.Kind != yaml.MappingNode {
		l.wrong(path, "must be a section of \"key: value\" lines")
		return
	}
	seen := map[string]int{}
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		if key.Kind != yaml.ScalarNode || key.Anchor != "" || key.Style&yaml.TaggedStyle != 0 || key.Tag == "!!merge" {
			l.at(path, key.Line, "a key must be a plain word; anchors, tags and \"<<\" are not supported")
			l.bad[path] = true
			continue
		}
		field, known := fieldByKey(out, key.Value)
		if !known {
			l.unknownKey(path, key, out.Type())
			continue
		}
		child := join(path, key.Value)
		if first, twice := seen[key.Value]; twice {
			l.at(child, key.Line, fmt.Sprintf("is given twice, first at line %d; remove one", first))
			l.bad[child] = true
			continue
		}
		seen[key.Value] = key.Line
		l.lines[child] = key.Line
		l.value(child, value, field)
	}
}

// unknownKey reports a key that does not exist. The key that was probably
// meant counts as unreadable, so that nobody is told it is missing as well.
func (l *loader) unknownKey(path string, key *yaml.Node, in reflect.Type) {
	name := key.Value
	switch {
	case len(name) > maxKey:
		l.at(path, key.Line, "holds a key that does not exist (too long to be shown); remove it")
		return
	case !plainKey.MatchString(name):
		name = quote(name)
	}
	message := "unknown key; remove it"
	if meant := nearest(key.Value, keysOf(in)); meant != "" {
		message = fmt.Sprintf("unknown key; did you mean %q?", meant)
		l.bad[join(path, meant)] = true
	} else if home := elsewhere(key.Value); home != "" {
		message = fmt.Sprintf("unknown key here; it belongs to %s", home)
	}
	l.at(join(path, name), key.Line, message)
}

func (l *loader) sequence(path string, node *yaml.Node, out reflect.Value) {
	if node.Kind != yaml.SequenceNode {
		l.wrong(path, "must be a list: in [brackets], or one item a line after \"- \"")
		return
	}
	list := reflect.MakeSlice(out.Type(), len(node.Content), len(node.Content))
	for i, item := range node.Content {
		list.Index(i).Set(newItem(out.Type().Elem()))
		l.value(index(path, i), item, list.Index(i))
	}
	out.Set(list)
}

func (l *loader) scalar(path string, node *yaml.Node, out reflect.Value) {
	if node.Kind != yaml.ScalarNode {
		l.wrong(path, "must be a single value, not a list or a section")
		return
	}
	quoted := node.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) != 0
	if quoted && (out.Kind() == reflect.Bool || out.Kind() == reflect.Int) {
		l.wrong(path, "must be written without quotes"+got(node.Value))
		return
	}
	value, wrong := parseScalar(out.Type(), node.Value)
	if wrong != "" {
		l.wrong(path, wrong)
		return
	}
	out.Set(reflect.ValueOf(value))
}

// isNull reports whether node is a key without a value, "~" or "null".
func isNull(node *yaml.Node) bool {
	return node.Kind == yaml.ScalarNode && node.Tag == "!!null"
}
