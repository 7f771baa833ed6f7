package page

import (
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// pair renders with stencils and without.
type pair struct{ kept, plain *Renderer }

func newPair(t testing.TB, o Options) pair {
	t.Helper()
	kept, err := New(o)
	require.NoError(t, err)
	plain, err := New(o)
	require.NoError(t, err)
	require.NotNil(t, kept.stencils.kept)
	plain.stencils.kept = nil
	return pair{kept, plain}
}

// same renders v both ways and compares all but the nonce.
func (p pair) same(t testing.TB, v View) {
	t.Helper()
	body := func(r *Renderer) string {
		got, err := r.Render(v)
		require.NoError(t, err)
		_, nonce, _ := strings.Cut(got.CSP, "'nonce-")
		nonce, _, _ = strings.Cut(nonce, "'")
		require.Equal(t, 2, strings.Count(string(got.Body), nonce))
		defer r.Reuse(got)
		return strings.ReplaceAll(string(got.Body), nonce, "nonce")
	}
	want := body(p.plain)
	require.Equal(t, want, body(p.kept), "the first of its shape")
	require.Equal(t, want, body(p.kept), "another one of its shape")
}

// looks are views that differ in one or two of what a page can lack or have.
func looks(v View) []View {
	all := []View{v}
	changes := []func(*View){
		func(v *View) { v.NumbersKnown = v.State == Paused || v.State == Closed },
		func(v *View) { v.WaitKnown, v.Wait = true, 30*time.Second },
		func(v *View) { v.Poll = 3 * time.Second },
		func(v *View) { v.RefreshOff = true },
		func(v *View) { v.Posted, v.Message = true, "Doors at <10> & 'later'" },
		func(v *View) { v.HoldFor, v.First, v.Position, v.Ahead, v.Behind = 0, 0, 1, 0, 0 },
		func(v *View) { v.First, v.Position = 341, 0 },
		func(v *View) { v.Checked = time.Time{} },
		func(v *View) { v.Apart = true },
		func(v *View) { v.LeaveURL = "" },
	}
	for i, first := range changes {
		for _, second := range changes[i:] { // with itself: one alone
			changed := v
			first(&changed)
			second(&changed)
			all = append(all, changed)
		}
	}
	return all
}

// The pages that are put together are, byte for byte, those that the template writes.
func TestAPageOfAStencilIsTheTemplatesPage(t *testing.T) {
	t.Parallel()
	p := newPair(t, Options{Title: "Ann & Bob's + <b>", ShowNumbers: true, Contact: "help@example.com"})
	langs := p.kept.Languages()
	for i, state := range States() {
		for _, v := range looks(Sample(state, langs[i%len(langs)])) {
			v.StatusURL, v.EventsURL, v.JoinURL = "/_queue/sale/status", "/_queue/sale/events", "/_queue/sale/join"
			v.Here, v.PageURL = "/a?b='c'&d=(e)+f", "/_queue/sale?return="+url.QueryEscape("/a?b='c'&d=(e)+f")
			p.same(t, v)
		}
	}
}

// One visitor's numbers never come into the page of another.
func TestAPageThatWasNotGivenBackIsNotWrittenOver(t *testing.T) {
	t.Parallel()
	p := newPair(t, Options{ShowNumbers: true})
	first, err := p.kept.Render(Sample(Waiting, "en"))
	require.NoError(t, err)
	before := string(first.Body)
	for range 3 {
		v := Sample(Waiting, "en")
		v.Position, v.First = 77, 78
		next, err := p.kept.Render(v)
		require.NoError(t, err)
		require.Contains(t, string(next.Body), "77")
		require.Equal(t, before, string(first.Body))
		p.kept.Reuse(next)
	}
}

// What names the parameters of the page's address is part of its shape.
func TestAPageOfOtherParametersIsAnotherPage(t *testing.T) {
	t.Parallel()
	p := newPair(t, Options{})
	for _, query := range []string{"?return=%2Fa", "?back=%2Fa", "", "?a=1&b=2&c=3", "?a=1&b=2", "?b=1"} {
		v := Sample(Waiting, "en")
		v.PageURL = "/_queue/sale" + query
		p.same(t, v)
	}
}

// An operator's markup may ask for more of a value than whether it is there.
func TestAnOperatorsOwnMarkupIsRenderedEachTime(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "queue.html.tmpl"), []byte(`<p>{{if eq .Position "1"}}next!{{else}}{{.Position}}{{end}}</p>`), 0o600))
	r, err := New(Options{Template: dir, ShowNumbers: true})
	require.NoError(t, err)
	for position, want := range map[int64]string{5: "<p>5</p>", 1: "<p>next!</p>", 7: "<p>7</p>"} {
		got, err := r.Render(View{State: Waiting, NumbersKnown: true, Position: position})
		require.NoError(t, err)
		require.Equal(t, want, string(got.Body))
	}
}

// FuzzStencil: what a visitor brings is where it belongs, and nowhere else.
func FuzzStencil(f *testing.F) {
	p := newPair(f, Options{ShowNumbers: true})
	f.Add("/", "", int64(1), int64(0), int64(0))
	f.Add(`/a"><script>?x='+&lang=ko`, "ko", int64(1<<62), int64(-5), int64(17))
	f.Add("/\x00\xff", "xx", int64(-1), int64(1<<62), int64(1e17))
	f.Fuzz(func(t *testing.T, here, lang string, position, first, wait int64) {
		p.same(t, View{
			State: Waiting, Room: "sale", Here: here, Language: lang, PageURL: "/_queue/sale?return=" + url.QueryEscape(here), NumbersKnown: true,
			Position: position, First: first, Behind: wait, WaitKnown: true, Wait: time.Duration(wait), Poll: time.Duration(first), HoldFor: time.Duration(position),
		})
	})
}
