package page_test

import (
	"html"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/queuegate/queuegate/proxy/page"
)

// file writes a file of the operator's and returns its path.
func file(t *testing.T, dir, name, content string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

func TestALogoIsPartOfThePageOrComesFromTheShop(t *testing.T) {
	dir := t.TempDir()
	body := render(t, page.Options{Logo: file(t, dir, "l.svg", `<svg xmlns="http://www.w3.org/2000/svg"/>`)}, waiting())
	require.Contains(t, html.UnescapeString(body), `<img class="logo" src="data:image/svg+xml;base64,PHN2Zy`)
	body = render(t, page.Options{Logo: file(t, dir, "l.gif", "GIF89a......")}, waiting())
	require.Contains(t, body, `src="data:image/gif;base64,`)
	require.Contains(t, render(t, page.Options{Logo: "shop:/logo.svg?v=1"}, waiting()), `src="/logo.svg?v=1"`)
	require.NotContains(t, render(t, page.Options{}, waiting()), "<img")

	for _, tt := range []struct{ logo, want string }{
		{"shop://evil.example/l.svg", `page: logo: "shop://evil.example/l.svg" must be shop: and a path of the shop`},
		{filepath.Join(dir, "none.svg"), "none.svg: no such file"},
		{file(t, dir, "big.svg", "<svg>"+strings.Repeat(" ", 4<<10)), "big.svg has 4101 bytes, at most 4096 are sent with every page"},
		{file(t, dir, "page.png", "<html>"), "page.png is no SVG, PNG, JPEG, GIF or WebP"},
	} {
		_, err := page.New(page.Options{Logo: tt.logo})
		require.ErrorContains(t, err, tt.want)
	}
}

func TestAnAccentIsRefusedWhenItIsNoColour(t *testing.T) {
	for _, bad := range []string{"red", "#12", "#12345g", "#fff;}", "rgb(1,2,3)"} {
		_, err := page.New(page.Options{Accent: bad})
		require.ErrorContains(t, err, "page: accent: ", bad)
	}
	require.Contains(t, render(t, page.Options{Accent: "#14599F"}, waiting()), ":root{--accent:#14599f;", "what can be read stays as it is")
}

func TestATemplateOfOnesOwnTakesThePlaceOfTheBuiltInOne(t *testing.T) {
	dir := t.TempDir()
	_, err := page.New(page.Options{Template: dir})
	require.ErrorContains(t, err, "has none of queue.html.tmpl, queue.css and queue.js")

	file(t, dir, "queue.css", "h1 { color: rebeccapurple }")
	body := render(t, page.Options{Template: dir}, waiting())
	require.Contains(t, body, "h1{color:rebeccapurple}", "the same in fewer letters")
	require.NotContains(t, body, "--ground")
	require.Contains(t, body, "performance.now", "the script stays")

	bad := file(t, dir, "queue.js", "const a = ;")
	_, err = page.New(page.Options{Template: dir})
	require.ErrorContains(t, err, "page: queue.js: ")
	require.ErrorContains(t, err, "line 1")
	require.NoError(t, os.Remove(bad))

	own := file(t, dir, "queue.html.tmpl", "<h1>{{.Title}}</h1>\n{{.W.Wait}}")
	require.Contains(t, render(t, page.Options{Template: dir}, waiting()), "<h1>(15 min) this shop</h1>\nEstimated wait")

	for _, tt := range []struct{ name, markup, want string }{
		{"broken", "<p>\n{{if}}", own + ":2: missing value for if"},
		{"without such a text", "<p>\n\n{{.W.Wiat}}", own + ":3:4: executing"},
		{"wrong in one state only", "\n{{range .States}}{{if and .On (eq .Name \"ended\")}}{{.Nothing}}{{end}}{{end}}", "(state ended, language en)"},
		{"too large", strings.Repeat("x", 28_001), "page: the page of the state waiting in en has 28001 bytes, at most 28000"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			file(t, dir, "queue.html.tmpl", tt.markup)
			require.ErrorContains(t, page.Check(page.Options{Template: dir}), tt.want)
		})
	}
}

func TestThePageIsFramedOnlyByThoseWhoMay(t *testing.T) {
	for want, frames := range map[string][]string{
		"frame-ancestors 'none'":                               nil,
		"frame-ancestors 'self'":                               {"self"},
		"frame-ancestors 'self' https://portal.example:8443":   {"self", "https://portal.example:8443"},
		"frame-ancestors https://self.example https://a.b.org": {"https://self.example", "https://a.b.org"},
	} {
		got, err := renderer(t, page.Options{FrameAncestors: frames}).Render(waiting())
		require.NoError(t, err)
		require.True(t, strings.HasSuffix(got.CSP, "; "+want), got.CSP)
	}
}

func TestThePageThatComesWithTheGateIsGoodInEveryStateAndLanguage(t *testing.T) {
	require.NoError(t, page.Check(page.Options{ShowNumbers: true, Accent: "#e2001a"}))
}
