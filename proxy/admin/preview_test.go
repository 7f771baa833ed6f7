package admin_test

import (
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/queuegate/queuegate/proxy/admin"
	"github.com/queuegate/queuegate/proxy/page"
)

// previews is an admin listener with the pages of two rooms.
func previews(t *testing.T, token string) http.Handler {
	t.Helper()
	pages := map[string]*page.Renderer{}
	for name, o := range map[string]page.Options{"gig": {Title: "Gig"}, "korean": {Languages: []string{"ko"}}} {
		r, err := page.New(o)
		require.NoError(t, err)
		pages[name] = r
	}
	return admin.New(admin.Options{Pages: pages, Token: token})
}

func look(h http.Handler, target, authorization string) *httptest.ResponseRecorder {
	w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, target, nil)
	r.Host = "localhost:9090"
	r.Header.Set("Authorization", authorization)
	h.ServeHTTP(w, r)
	return w
}

func TestPreviewShowsEveryStateInEveryLanguage(t *testing.T) {
	h := previews(t, "")
	index := look(h, "/preview", "")
	require.Equal(t, http.StatusOK, index.Code)
	for _, lang := range []string{"en", "ko", "ja"} {
		for _, s := range page.States() {
			target := "/preview?room=gig&state=" + string(s) + "&lang=" + lang
			require.Contains(t, index.Body.String(), `"`+strings.ReplaceAll(target, "&", "&amp;")+`"`)
			got := look(h, target, "")
			require.Equal(t, http.StatusOK, got.Code, target)
			require.Equal(t, lang, got.Header().Get("Content-Language"))
			require.Contains(t, got.Body.String(), `<html lang="`+lang+`"`)
			require.Contains(t, got.Header().Get("Content-Security-Policy"), "script-src 'nonce-")
			require.NotContains(t, got.Body.String(), "data-status-url", "it asks for nothing")
			require.NotContains(t, got.Body.String(), "http-equiv", "nor loads itself")
			require.Equal(t, 2, strings.Count(got.Body.String(), `<button name="lang"`), "the other languages are a click away")
			require.Contains(t, got.Body.String(), `<input type="hidden" name="state" value="`+string(s)+`">`)
			for _, m := range regexp.MustCompile(` (?:href|action)="([^"]*)"`).FindAllStringSubmatch(got.Body.String(), -1) {
				require.True(t, m[1] == "/preview" || strings.HasPrefix(m[1], "/preview?") || strings.HasPrefix(m[1], "data:image"), m[1])
			}
		}
	}
	require.Equal(t, "ko", look(h, "/preview?room=korean&state=waiting", "").Header().Get("Content-Language"))
}

func TestPreviewNamesWhatThereIs(t *testing.T) {
	h := previews(t, "")
	for target, want := range map[string]string{
		"/preview?room=shop&state=waiting":           "The rooms are gig, korean.",
		"/preview?room=korean&state=waiting&lang=en": "The languages are ko.",
		"/preview?room=gig&state=lost":               `unknown state \"lost\"`,
	} {
		got := look(h, target, "")
		require.Equal(t, http.StatusNotFound, got.Code)
		require.Contains(t, got.Body.String(), want)
	}
}

func TestPreviewAsksForTheToken(t *testing.T) {
	h := previews(t, "q8Zr2LxT0vB7nYc4WmKd9HsJ6pGf3aEu")
	for _, shown := range []string{"", "Bearer ", "Bearer q8Zr2LxT0vB7nYc4WmKd9HsJ6pGf3aE", "Basic q8Zr2LxT0vB7nYc4WmKd9HsJ6pGf3aEu"} {
		require.Equal(t, http.StatusUnauthorized, look(h, "/preview", shown).Code, shown)
	}
	require.Equal(t, http.StatusOK, look(h, "/preview", "Bearer q8Zr2LxT0vB7nYc4WmKd9HsJ6pGf3aEu").Code)
	require.Equal(t, http.StatusOK, look(h, "/healthz", "").Code, "probes have none")
}
