package config

import (
	_ "embed"
	"fmt"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// Example is the annotated configuration file that holds every key at its
// default, with one room. It is not to be changed.
//
//go:embed queuegate.example.yaml
var Example []byte

// YAML writes the configuration in the form of the file, with every key. With
// redact secrets become "(set)" and redis.url loses only user and password;
// without, the result holds them all and reads back as the same configuration.
func (c *Config) YAML(redact bool) ([]byte, error) {
	node := encode(reflect.ValueOf(*c), redact)
	for i := 0; redact && i+1 < len(node.Content); i += 2 {
		if node.Content[i].Value == "redis" {
			showAddress(node.Content[i+1], c.Redis.URL)
		}
	}
	var b strings.Builder
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	if err := enc.Encode(node); err != nil {
		return nil, fmt.Errorf("config: write as YAML: %w", err)
	}
	if err := enc.Close(); err != nil {
		return nil, fmt.Errorf("config: write as YAML: %w", err)
	}
	return []byte(b.String()), nil
}

// encode builds the node tree of v. Durations are written as 5m and not 5m0s.
func encode(v reflect.Value, redact bool) *yaml.Node {
	switch {
	case v.Kind() == reflect.Struct:
		node := &yaml.Node{Kind: yaml.MappingNode}
		for i := range v.NumField() {
			node.Content = append(node.Content, text(keyOf(v.Type().Field(i))), encode(v.Field(i), redact))
		}
		return node
	case v.Kind() == reflect.Slice:
		node := &yaml.Node{Kind: yaml.SequenceNode}
		if !isStructList(v.Type()) || v.Len() == 0 {
			node.Style = yaml.FlowStyle
		}
		for i := range v.Len() {
			node.Content = append(node.Content, encode(v.Index(i), redact))
		}
		return node
	case v.Type() == durationType:
		return plain(short(time.Duration(v.Int())))
	case v.Kind() == reflect.Bool:
		return plain(strconv.FormatBool(v.Bool()))
	case v.Kind() == reflect.Int:
		return plain(strconv.FormatInt(v.Int(), 10))
	case v.Type() == secretType && redact:
		return text(Secret(v.String()).String())
	default:
		return text(v.String())
	}
}

// text is a scalar that reads back as text, quoted where it must be.
func text(value string) *yaml.Node {
	node := &yaml.Node{}
	node.SetString(value)
	if value == "" || strings.ContainsAny(value, "\r\u0085\u2028\u2029\ufeff") {
		node.Style = yaml.DoubleQuotedStyle
	}
	return node
}

func plain(value string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Value: value} }

// showAddress shows in the section of Redis where it is, which operators need
// to see, with user and password masked.
func showAddress(redis *yaml.Node, secret Secret) {
	u, err := url.Parse(secret.Reveal())
	if err != nil || secret == "" {
		return
	}
	for i := 0; i+1 < len(redis.Content); i += 2 {
		if redis.Content[i].Value == "url" {
			if u.User != nil {
				u.User = url.User("xxxxx")
			}
			redis.Content[i+1] = text(u.String())
		}
	}
}
