package admin

import (
	"bytes"
	"html/template"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/queuegate/queuegate/proxy/page"
)

// index lists what can be looked at. It has nothing but links.
var index = template.Must(template.New("preview").Parse(`<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Queue pages</title>
<h1>Queue pages</h1>
{{range $room := .}}<h2>{{.Name}}</h2>
<ul>
{{range $state := $room.States}}<li>{{$state}}:{{range $room.Languages}} <a href="/preview?room={{$room.Name}}&amp;state={{$state}}&amp;lang={{.}}">{{.}}</a>{{end}}</li>
{{end}}</ul>
{{end}}`))

// indexed is one room of the index.
type indexed struct {
	Name      string
	States    []page.State
	Languages []string
}

// preview shows the page of a room as it looks in a state and a language, and
// without a state the list of all there are. Nothing in a page shown asks for
// anything by itself, and every link leads back to it.
func preview(o Options) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		if !q.Has("state") {
			list(w, o.Pages)
			return
		}
		renderer, known := o.Pages[q.Get("room")]
		if !known {
			refuse(w, http.StatusNotFound, "not-found", "There is no such room. The rooms are "+strings.Join(slices.Sorted(maps.Keys(o.Pages)), ", ")+".")
			return
		}
		if lang := q.Get("lang"); lang != "" && !slices.Contains(renderer.Languages(), lang) {
			refuse(w, http.StatusNotFound, "not-found", "There is no such language. The languages are "+strings.Join(renderer.Languages(), ", ")+".")
			return
		}
		view := page.Sample(page.State(q.Get("state")), q.Get("lang"))
		view.AcceptLanguage = r.Header.Get("Accept-Language")
		view.PageURL = "/preview?" + url.Values{"room": {q.Get("room")}, "state": {q.Get("state")}}.Encode()
		view.Here = view.PageURL
		rendered, err := renderer.Render(view)
		if err != nil {
			refuse(w, http.StatusNotFound, "not-found", "There is no such state; GET /preview lists them: "+err.Error())
			return
		}
		w.Header().Set("Content-Security-Policy", rendered.CSP)
		w.Header().Set("Content-Language", rendered.Language)
		html(w, rendered.Body)
	}
}

func list(w http.ResponseWriter, pages map[string]*page.Renderer) {
	var rooms []indexed
	for _, name := range slices.Sorted(maps.Keys(pages)) {
		rooms = append(rooms, indexed{name, page.States(), pages[name].Languages()})
	}
	var body bytes.Buffer
	if err := index.Execute(&body, rooms); err != nil {
		refuse(w, http.StatusInternalServerError, "internal", err.Error())
		return
	}
	w.Header().Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'; base-uri 'none'")
	html(w, body.Bytes())
}

func html(w http.ResponseWriter, body []byte) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write(body)
}
