package config

import "fmt"

// Keys lists every key that holds a value, with its type and default.
func Keys() []string {
	var list []string
	for _, l := range leaves() {
		list = append(list, fmt.Sprintf("%s %s %v", l.pattern, l.typ, l.def.Interface()))
	}
	return list
}

// KeyPatterns lists the same keys alone.
func KeyPatterns() []string {
	var list []string
	for _, l := range leaves() {
		list = append(list, l.pattern)
	}
	return list
}
