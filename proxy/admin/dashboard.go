package admin

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"net/http"
)

//go:embed dashboard
var dashboardFiles embed.FS

// dashboardScripts are the parts of the page's script, in their order.
func dashboardScripts() []string {
	return []string{"base.js", "charts.js", "view.js", "actions.js", "main.js"}
}

// dashboard is the page for operators. It has no data of its own and so needs no
// token: it asks the API, with the token that its user gives it. One answer holds all
// of it, and the policy lets nothing run but this very style and script, nothing be
// made of text, and nothing be asked but this listener.
type dashboard struct {
	page   []byte
	policy string
}

func newDashboard() dashboard {
	read := func(name string) []byte {
		raw, _ := dashboardFiles.ReadFile("dashboard/" + name) // it is part of the program
		return raw
	}
	var script bytes.Buffer
	script.WriteString("\n\"use strict\";\n(() => {\n")
	for _, name := range dashboardScripts() {
		script.Write(read(name))
	}
	script.WriteString("})();\n")
	style := read("style.css")
	page := bytes.Replace(read("index.html"), []byte("/*STYLE*/"), style, 1)
	page = bytes.Replace(page, []byte("/*SCRIPT*/"), script.Bytes(), 1)
	return dashboard{page: page, policy: "default-src 'none'; script-src '" + hashOf(script.Bytes()) + "'; style-src '" + hashOf(style) +
		"'; connect-src 'self'; img-src data:; form-action 'none'; base-uri 'none'; frame-ancestors 'none'; " +
		"require-trusted-types-for 'script'; trusted-types 'none'"}
}

// hashOf names a text in a policy.
func hashOf(text []byte) string {
	sum := sha256.Sum256(text)
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

func (d dashboard) serve(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Security-Policy", d.policy)
	w.Header().Set("Referrer-Policy", "no-referrer")
	w.Header().Set("X-Frame-Options", "DENY")
	w.Header().Set("Cross-Origin-Opener-Policy", "same-origin")
	html(w, d.page)
}
