package config

import (
	"reflect"
	"strconv"
	"strings"
	"time"
)

var (
	durationType = reflect.TypeFor[time.Duration]()
	secretType   = reflect.TypeFor[Secret]()
	roomType     = reflect.TypeFor[Room]()
)

// leaf is a key that holds a value: a scalar or a list of scalars.
type leaf struct {
	// pattern is the key path with "[]" for any item, as rooms[].name.
	pattern string
	// typ is the Go type of the value.
	typ reflect.Type
	// def is the default; invalid for keys of rules, which have none.
	def reflect.Value
}

// secret reports whether the value must not be shown.
func (l leaf) secret() bool {
	return l.typ == secretType || (l.typ.Kind() == reflect.Slice && l.typ.Elem() == secretType)
}

// inRooms reports whether the key belongs to a room, which the environment
// cannot reach.
func (l leaf) inRooms() bool { return strings.HasPrefix(l.pattern, "rooms[]") }

// leaves lists every key that holds a value, in the order of the structs.
func leaves() []leaf {
	return appendLeaves(nil, "", reflect.ValueOf(Default()))
}

func appendLeaves(list []leaf, pattern string, v reflect.Value) []leaf {
	switch {
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			list = appendLeaves(list, join(pattern, keyOf(v.Type().Field(i))), v.Field(i))
		}
		return list
	case isStructList(v.Type()):
		return appendLeaves(list, pattern+"[]", newItem(v.Type().Elem()))
	default:
		return append(list, leaf{pattern: pattern, typ: v.Type(), def: v})
	}
}

// isStructList reports whether t is a list of sections, such as the rooms.
func isStructList(t reflect.Type) bool {
	return t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Struct
}

// newItem is a fresh item of a list, with the defaults of its type.
func newItem(t reflect.Type) reflect.Value {
	item := reflect.New(t).Elem()
	if t == roomType {
		item.Set(reflect.ValueOf(DefaultRoom()))
	}
	return item
}

// keyOf is the key of a struct field in the file.
func keyOf(f reflect.StructField) string { return f.Tag.Get("yaml") }

// fieldByKey finds the field of struct v that key names. Keys are compared
// with their case.
func fieldByKey(v reflect.Value, key string) (reflect.Value, bool) {
	for i := range v.NumField() {
		if keyOf(v.Type().Field(i)) == key {
			return v.Field(i), true
		}
	}
	return reflect.Value{}, false
}

// keysOf lists the keys of a struct type.
func keysOf(t reflect.Type) []string {
	keys := make([]string, t.NumField())
	for i := range keys {
		keys[i] = keyOf(t.Field(i))
	}
	return keys
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

func index(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }

// parent is the path of the section or list a path lies in; "" at the top.
func parent(path string) string {
	return path[:max(0, strings.LastIndexAny(path, ".["))]
}

// within reports whether path is ancestor or lies in it; all lies in "".
func within(path, ancestor string) bool {
	if ancestor == "" {
		return true
	}
	rest, ok := strings.CutPrefix(path, ancestor)
	return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}
