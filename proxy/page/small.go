package page

import (
	"fmt"

	"github.com/tdewolff/minify/v2"
	"github.com/tdewolff/minify/v2/css"
	"github.com/tdewolff/minify/v2/js"
)

// small makes style and script small: they are part of a page that is sent a
// hundred thousand times. What cannot be read as style or script is an error that
// names line and column.
func (p parts) small() (parts, error) {
	m := minify.New()
	m.AddFunc("text/css", css.Minify)
	m.AddFunc("text/javascript", js.Minify)
	for file, part := range map[string]*string{"queue.css": &p.style, "queue.js": &p.script} {
		kind := "text/javascript"
		if file == "queue.css" {
			kind = "text/css"
		}
		small, err := m.String(kind, *part)
		if err != nil {
			return parts{}, fmt.Errorf("page: %s: %w", file, err)
		}
		*part = small
	}
	return p, nil
}
