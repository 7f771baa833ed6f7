package proxy

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// One document has two writers; they must not differ by a byte, whatever is in it.
func TestADocumentIsWrittenAsEncodingJSONWritesIt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var d statusDoc
		v := reflect.ValueOf(&d).Elem()
		for i := range v.NumField() {
			if !v.Type().Field(i).IsExported() {
				continue
			}
			switch field := v.Field(i).Addr().Interface().(type) {
			case *string:
				*field = rapid.OneOf(rapid.Just(""), rapid.StringMatching(`[a-zA-Z0-9/?=_-]{1,20}`), rapid.String()).Draw(t, "text")
			case **int64:
				if rapid.Bool().Draw(t, "known") {
					*field = new(rapid.Int64().Draw(t, "number"))
				}
			case **time.Time:
				if rapid.Bool().Draw(t, "known") {
					*field = new(time.UnixMilli(rapid.Int64Range(0, 1<<42).Draw(t, "time")).UTC())
				}
			default:
				t.Fatalf("a member of another type: %T", field)
			}
		}
		want, err := json.Marshal(d)
		require.NoError(t, err)
		require.Equal(t, string(want), string(d.appendJSON(nil)))
	})
}
