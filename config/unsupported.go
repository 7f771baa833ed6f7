package config

import "reflect"

// unsupported are the keys whose feature this version does not have, with the
// name of the feature. A key also stands for all keys below it. Setting one to
// anything but its default is refused: silently ignored, it would promise what
// the gate does not do. Whoever builds the feature deletes its line.
func unsupported() map[string]string {
	return map[string]string{
		"rooms[].upstream": "a shop of its own for a room",
		"rooms[].shadow":   "shadow mode",
	}
}

// refuseUnsupported reports every key of unsupported that is not at its
// default. Keys with a problem of their own are left out.
func (k *checker) refuseUnsupported() {
	k.refuse("", "", reflect.ValueOf(*k.c), reflect.ValueOf(Default()), unsupported())
}

func (k *checker) refuse(path, pattern string, v, def reflect.Value, features map[string]string) {
	feature := features[pattern]
	switch {
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			key := keyOf(v.Type().Field(i))
			below := features
			if feature != "" {
				below = map[string]string{join(pattern, key): feature}
			}
			k.refuse(join(path, key), join(pattern, key), v.Field(i), def.Field(i), below)
		}
	case feature == "" && isStructList(v.Type()):
		for i := range v.Len() {
			k.refuse(index(path, i), pattern+"[]", v.Index(i), newItem(v.Type().Elem()), features)
		}
	case feature != "" && !sameValue(v, def) && !k.failed(path):
		k.fail(path, "not supported by this version of queuegate; remove it (%s)", feature)
	}
}

// sameValue compares values; an empty list is the same as none.
func sameValue(a, b reflect.Value) bool {
	if a.Kind() == reflect.Slice && a.Len() == 0 && b.Len() == 0 {
		return true
	}
	return reflect.DeepEqual(a.Interface(), b.Interface())
}
