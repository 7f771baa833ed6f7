// Package openapi describes what a gate answers its visitors, as OpenAPI 3.1.
package openapi

import (
	_ "embed" // the description is part of the program
	"net/url"
	"strings"
)

// written is the reserved path that stands in the file.
const written = "/_queue"

//go:embed openapi.yaml
var description string

// Describe returns the description of a gate whose reserved path is prefix, such as
// /_queue, as YAML.
func Describe(prefix string) []byte {
	address := (&url.URL{Path: prefix}).EscapedPath()
	return []byte(strings.ReplaceAll(description, `"`+written+`"`, `"`+address+`"`))
}
