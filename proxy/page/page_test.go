package page_test

import (
	"encoding/xml"
	"errors"
	"fmt"
	"html"
	"io"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/queuegate/queuegate/proxy/page"
)

var states = []page.State{
	page.Waiting, page.Paused, page.QueueAll, page.Degraded, page.Full, page.Crowded, page.Closed,
	page.SoldOut, page.ShopDown, page.NotAccepted, page.Ready, page.Ended, page.Left,
}

func renderer(t testing.TB, o page.Options) *page.Renderer {
	t.Helper()
	r, err := page.New(o)
	require.NoError(t, err)
	return r
}

func render(t *testing.T, o page.Options, v page.View) string {
	t.Helper()
	got, err := renderer(t, o).Render(v)
	require.NoError(t, err)
	return string(got.Body)
}

// waiting is a visitor in the middle of a line.
func waiting() page.View {
	return page.View{
		State: page.Waiting, Room: "checkout",
		Position: 342, Ahead: 341, Behind: 4658, Waiting: 5000, NumbersKnown: true,
		Wait: 12 * time.Minute, WaitKnown: true,
		Poll: 3120 * time.Millisecond, HoldFor: 30 * time.Minute,
		StatusURL: "/_queue/checkout/status", EventsURL: "/_queue/checkout/events", JoinURL: "/_queue/checkout/join", LeaveURL: "/_queue/checkout",
		Here: "/order/item?id=7&c=a%20b+c", PageURL: "/_queue/checkout?return=%2Forder",
		Checked: time.Date(2026, 5, 4, 14, 5, 32, 0, time.UTC),
	}
}

var (
	scripts = regexp.MustCompile(`(?s)<(script|style)[^>]*>.*?</(script|style)>`)
	tags    = regexp.MustCompile(`<[^>]*>`)
)

// seen is the text of the page that is not hidden, without script and style.
// It fails when the markup is not well-formed.
func seen(t *testing.T, body string) string {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(scripts.ReplaceAllString(body, "")))
	d.Strict = false // attributes without a value
	d.AutoClose = xml.HTMLAutoClose
	d.Entity = xml.HTMLEntity
	var out strings.Builder
	var hidden []bool
	depth := 0
	for {
		tok, err := d.Token()
		if errors.Is(err, io.EOF) {
			require.Empty(t, hidden, "every element is closed")
			return strings.Join(strings.Fields(out.String()), " ")
		}
		require.NoError(t, err)
		switch e := tok.(type) {
		case xml.StartElement:
			h := e.Name.Local == "noscript" || e.Name.Local == "title"
			for _, a := range e.Attr {
				h = h || a.Name.Local == "hidden"
			}
			hidden = append(hidden, h)
			if h {
				depth++
			}
			out.WriteByte(' ')
		case xml.EndElement:
			if hidden[len(hidden)-1] {
				depth--
			}
			hidden = hidden[:len(hidden)-1]
			out.WriteByte(' ')
		case xml.CharData:
			if depth == 0 {
				out.Write(e)
			}
		}
	}
}

func TestWaitingPage(t *testing.T) {
	body := render(t, page.Options{Title: "Concert tickets", ShowNumbers: true, Contact: "help@example.com", Footer: "Example Ltd", Message: "Doors at\nseven."}, waiting())
	text := seen(t, body)
	for _, want := range []string{
		"You are in line for Concert tickets",
		"You are number 342",
		"Behind you 4,658 people",
		"Estimated wait about 10-15 minutes",
		"Keep this page open; you will be let in automatically. If you close it, your place is held for 30 minutes.",
		"Check now",
		"Last checked at 14:05:32 UTC",
		"A place in line is a turn. It does not reserve anything.",
		"Doors at seven.",
		"Help: help@example.com",
		"Example Ltd",
	} {
		require.Contains(t, text, want)
	}
	for _, no := range []string{"Continue", "Join the line again", "Reconnecting", "cookie", "Leave the line"} {
		require.NotContains(t, text, no)
	}
	require.Contains(t, body, `<html lang="en" dir="ltr">`)
	require.Contains(t, body, "<title>(15 min) Concert tickets</title>")
	require.Contains(t, body, `href="mailto:help@example.com"`)
	require.Regexp(t, `<p class="heard" id="said" role="status"></p>`, body, "the live region is empty at load")
	require.Regexp(t, `id="moved-row" class="wide" hidden`, body, "nothing to measure from")
}

func TestProgressIsMeasuredFromTheFirstPlace(t *testing.T) {
	for _, tt := range []struct {
		first, ahead int64
		bar, words   string
	}{
		{1341, 341, `max="1341" value="1000"`, "Moved up since you came 1,000 of 1,341 places"},
		{341, 341, `max="341" value="0"`, "Moved up since you came 0 of 341 places"},
		{1, 0, `max="1" value="1"`, "Moved up since you came 1 of 1 place"},
		{0, 0, "", ""},
		{12, 13, "", ""}, // never backwards
	} {
		v := waiting()
		v.First, v.Ahead, v.Position = tt.first, tt.ahead, tt.ahead+1
		body := render(t, page.Options{ShowNumbers: true}, v)
		if tt.bar == "" {
			require.NotContains(t, seen(t, body), "Moved up")
			continue
		}
		require.Contains(t, body, `<progress id="progress" aria-labelledby="moved-name" `+tt.bar)
		require.Contains(t, seen(t, body), tt.words)
		require.NotContains(t, seen(t, render(t, page.Options{}, v)), "Moved up", "numbers are not wanted")
	}
}

func TestEveryStateSaysItsOwnAndOnlyItsOwn(t *testing.T) {
	tests := []struct {
		state page.State
		place bool // a place is known
		want  string
		title string
		not   string
	}{
		{page.Waiting, true, "in the order they came", "(15 min) Gig", "paused"},
		{page.Paused, true, "The line is paused", "Paused - Gig", "Continue"},
		{page.QueueAll, true, "Nobody is being let in at the moment", "In line - Gig", "Continue"},
		{page.Degraded, true, "the last ones known", "In line - Gig", "One moment"},
		{page.Degraded, false, "If you have none yet, you get one as soon as the line answers.", "One moment - Gig", "You are in line"},
		{page.Full, false, "You have no place yet.", "Line full - Gig", "You are in line"},
		{page.Crowded, false, "from the same network as you", "One moment - Gig", "You are in line"},
		{page.Closed, false, "The line for Gig is closed", "Closed - Gig", "You are in line"},
		{page.Closed, true, "You are number 342", "Closed - Gig", "let in automatically"},
		{page.SoldOut, false, "nothing left to wait for", "Sold out - Gig", "You are number"},
		{page.ShopDown, false, "Your turn or your place in line is kept.", "Not answering - Gig", "You are number"},
		{page.NotAccepted, true, "What you sent has not reached the shop.", "(15 min) Gig", "Continue"},
		{page.Ready, false, "It is your turn", "Your turn - Gig", "You are number"},
		{page.Ended, false, "Your place in line has ended", "Ended - Gig", "You are number"},
		{page.Left, false, "If you join again, you start at the end of the line. Join the line again", "Left - Gig", "Check now"},
	}
	seenStates := map[page.State]bool{}
	for _, tt := range tests {
		t.Run(fmt.Sprintf("%s, place known: %v", tt.state, tt.place), func(t *testing.T) {
			v := waiting()
			v.State, v.NumbersKnown = tt.state, tt.place
			body := render(t, page.Options{Title: "Gig", ShowNumbers: true, Contact: "help@gig.example"}, v)
			text := seen(t, body)
			require.Contains(t, text, tt.want)
			require.Contains(t, text, "Help: help@gig.example", "the same help everywhere")
			require.NotContains(t, text, tt.not)
			require.Contains(t, body, "<title>"+html.EscapeString(tt.title)+"</title>")
			require.Len(t, regexp.MustCompile(`data-when="[a-z_]+"><h1>`).FindAllString(body, -1), 1, "one heading is seen")
		})
		seenStates[tt.state] = true
	}
	for _, s := range states {
		require.True(t, seenStates[s], "%s is tested", s)
	}
}

func TestAPageOfALotterySaysSoAndPromisesNoOrderOfArrival(t *testing.T) {
	before := waiting()
	before.NumbersKnown, before.WaitKnown = false, false
	text := seen(t, render(t, page.Options{ByLot: true, ShowNumbers: true}, before))
	require.Contains(t, text, "drawn by lot once a minute")
	require.Contains(t, text, "Before the draw your place has no number yet.")
	require.NotContains(t, text, "in the order they came")
	require.NotContains(t, text, "You are number")
	require.Contains(t, seen(t, render(t, page.Options{ByLot: true, ShowNumbers: true}, waiting())), "You are number 342")

	text = seen(t, render(t, page.Options{}, waiting()))
	require.Contains(t, text, "in the order they came")
	require.NotContains(t, text, "drawn by lot")
}

func TestAPageOfARoomWithoutALineSpeaksOfNobodyWaiting(t *testing.T) {
	body := render(t, page.Options{NoLine: true}, page.View{State: page.Full, Poll: 20 * time.Second})
	require.Contains(t, seen(t, body), "there is no line to wait in")
	require.NotContains(t, seen(t, body), "people are waiting")
	require.NotContains(t, seen(t, body), "line for")
	require.Contains(t, body, "<title>No room - this shop</title>")
	require.Contains(t, seen(t, render(t, page.Options{}, page.View{State: page.Full})), "people are waiting")
}

func TestUnknownStateIsAnError(t *testing.T) {
	r := renderer(t, page.Options{})
	for _, s := range []page.State{"", "unknown", "WAITING"} {
		_, err := r.Render(page.View{State: s})
		require.ErrorIs(t, err, page.ErrState)
	}
}

func TestNothingIsPromisedButATurn(t *testing.T) {
	for _, s := range states {
		v := waiting()
		v.State = s
		text := strings.ToLower(seen(t, render(t, page.Options{ShowNumbers: true}, v)))
		for _, word := range []string{"guarantee", "buy", "purchase", "in stock", "your tickets", "oops", "sorry", "error"} {
			require.NotContains(t, text, word, s)
		}
	}
}

func TestWaitIsARangeInWords(t *testing.T) {
	tests := []struct {
		wait  time.Duration
		want  string
		title string
	}{
		{-time.Second, "less than a minute", "(1 min) Gig"},
		{0, "less than a minute", "(1 min) Gig"},
		{59 * time.Second, "less than a minute", "(1 min) Gig"},
		{59*time.Second + time.Millisecond, "about 1-2 minutes", "(2 min) Gig"},
		{171 * time.Second, "about 2-3 minutes", "(3 min) Gig"},
		{10 * time.Minute, "about 10-15 minutes", "(15 min) Gig"},
		{59 * time.Minute, "about 45-60 minutes", "(60 min) Gig"},
		{time.Hour, "more than an hour", "(> 1 h) Gig"},
		{5 * time.Hour, "more than 3 hours", "(> 3 h) Gig"},
		{24 * time.Hour, "more than a day", "(> 1 day) Gig"},
		{9000 * time.Hour, "more than a day", "(> 1 day) Gig"},
	}
	for _, tt := range tests {
		t.Run(tt.wait.String(), func(t *testing.T) {
			v := waiting()
			v.Wait = tt.wait
			body := render(t, page.Options{Title: "Gig"}, v)
			require.Contains(t, seen(t, body), "Estimated wait "+tt.want+" ")
			require.Contains(t, body, "<title>"+html.EscapeString(tt.title)+"</title>")
		})
	}
	v := waiting()
	v.WaitKnown = false
	body := render(t, page.Options{Title: "Gig"}, v)
	require.Contains(t, seen(t, body), "We cannot estimate the wait right now")
	require.Contains(t, body, "<title>In line - Gig</title>")
}

func TestNumbersAreShownOnlyWhenKnownAndWanted(t *testing.T) {
	v := waiting()
	text := seen(t, render(t, page.Options{}, v))
	require.NotContains(t, text, "342")
	require.NotContains(t, text, "Behind you")

	v.NumbersKnown = false
	text = seen(t, render(t, page.Options{ShowNumbers: true}, v))
	require.NotContains(t, text, "You are number")
	require.NotContains(t, text, "Behind you")

	for _, tt := range []struct {
		behind int64
		want   string
	}{{0, "Behind you nobody yet"}, {1, "Behind you 1 person"}, {999, "Behind you 999 people"}, {1000, "Behind you 1,000 people"}, {1234567, "Behind you 1,234,567 people"}} {
		v = waiting()
		v.Position, v.Ahead, v.Behind = 0, 6, tt.behind
		text = seen(t, render(t, page.Options{ShowNumbers: true}, v))
		require.Contains(t, text, tt.want)
		require.Contains(t, text, "You are number 7", "a missing position follows from ahead")
	}
}

func TestHoldIsNeverLongerThanItIs(t *testing.T) {
	for _, tt := range []struct {
		hold time.Duration
		want string
	}{
		{time.Second, "1 second."}, {90 * time.Second, "90 seconds."}, {119900 * time.Millisecond, "119 seconds."}, {2 * time.Minute, "2 minutes."},
		{150 * time.Second, "2 minutes."}, {90 * time.Minute, "90 minutes."}, {2 * time.Hour, "2 hours."}, {150 * time.Minute, "150 minutes."}, {30*time.Hour + time.Minute, "30 hours."},
	} {
		v := waiting()
		v.HoldFor = tt.hold
		require.Contains(t, seen(t, render(t, page.Options{}, v)), "your place is held for "+tt.want)
	}
	v := waiting()
	v.HoldFor = 0
	require.NotContains(t, seen(t, render(t, page.Options{}, v)), "is held")
}

// refresh is the content of the meta refresh, "" when there is none.
func refresh(t *testing.T, body string) string {
	t.Helper()
	m := regexp.MustCompile(`<noscript><meta http-equiv="refresh" content="([^"]*)"></noscript>`).FindStringSubmatch(body)
	if m == nil {
		require.NotContains(t, body, "http-equiv")
		return ""
	}
	return html.UnescapeString(m[1])
}

func TestPageWithoutJavaScriptRefreshesItself(t *testing.T) {
	v := waiting()
	body := render(t, page.Options{}, v)
	require.Equal(t, "4;url=/order/item?id=7&c=a%20b+c", refresh(t, body), "the poll interval, rounded up; an address with a fragment would load nothing")
	require.Contains(t, body, `<noscript><a class="button quiet" href="/_queue/checkout?return=%2Forder&amp;refresh=off">Stop refreshing</a></noscript>`)

	v.Poll = time.Millisecond
	require.Equal(t, "2;url=/order/item?id=7&c=a%20b+c", refresh(t, render(t, page.Options{}, v)), "time to read")
	v.Here = "//elsewhere"
	require.Equal(t, "2", refresh(t, render(t, page.Options{}, v)), "the page's own address, whatever it is")

	v.PageURL = ""
	require.NotContains(t, render(t, page.Options{}, v), "Stop refreshing")

	v = waiting()
	v.Poll = 0
	require.Empty(t, refresh(t, render(t, page.Options{}, v)))

	for _, v.State = range []page.State{page.Ended, page.Left} {
		v.Poll = time.Second
		require.Empty(t, refresh(t, render(t, page.Options{}, v)), "joining again is a decision")
	}
}

func TestPageThatStaysAsItIs(t *testing.T) {
	v := waiting()
	v.RefreshOff = true
	body := render(t, page.Options{}, v)
	require.Empty(t, refresh(t, body))
	require.Contains(t, body, " data-still>")
	text := seen(t, body)
	require.Contains(t, text, "This page does not refresh by itself.")
	require.NotContains(t, text, "automatically.")
	require.Contains(t, text, "Refresh automatically")
	require.Regexp(t, `id="check" [^>]*href="/_queue/checkout\?return=%2Forder&amp;refresh=off"`, body, "checking does not switch the refresh on again")
	require.Regexp(t, `href="/order/item\?id=7&amp;c=a%20b\+c">Refresh automatically`, body)
}

func TestAnswerToAFormNeverLoadsItsOwnAddress(t *testing.T) {
	v := waiting()
	v.State, v.Here = page.NotAccepted, "/cart?a=1"
	body := render(t, page.Options{}, v)
	require.Equal(t, "4;url=/cart?a=1", refresh(t, body))
	require.Contains(t, body, " data-posted")

	v.Here = "javascript:alert(1)"
	require.Equal(t, "4;url=/", refresh(t, render(t, page.Options{}, v)))

	v = waiting()
	v.State, v.Posted = page.Paused, true
	require.Contains(t, seen(t, render(t, page.Options{}, v)), "What you sent has not reached the shop.")

	v = waiting()
	v.State, v.Posted = page.ShopDown, true
	require.NotContains(t, render(t, page.Options{}, v), "What you sent", "it may have reached the shop")
	body = render(t, page.Options{}, v)
	require.Contains(t, seen(t, body), "look whether it went through before you send it again")
	require.Contains(t, body, " data-posted")

	require.NotContains(t, render(t, page.Options{}, waiting()), " data-posted")
}

func TestWithoutAPlaceThereIsNothingToLeave(t *testing.T) {
	v := waiting()
	v.State = page.Closed
	require.Contains(t, render(t, page.Options{}, v), `id="leave"`)
	v.NumbersKnown = false
	require.Contains(t, render(t, page.Options{}, v), `id="leave"`, "held, without a number")
	v.HoldFor = 0
	require.NotContains(t, render(t, page.Options{}, v), `id="leave"`)
}

func TestTargetIsKeptByteForByte(t *testing.T) {
	for _, here := range []string{
		"/", "/order/item?id=7&c=a%20b+c", "/a?q='()*!~[]{}|^`", "/a?x=%2F%2f&y=%", "/ä?ö=ü", `/a?q="quoted"`, "/a?next=//evil.example/&u=javascript:x", "/a//b",
	} {
		t.Run(here, func(t *testing.T) {
			v := waiting()
			v.State, v.Here = page.Ready, here
			body := render(t, page.Options{}, v)
			m := regexp.MustCompile(`id="continue" [^>]*href="([^"]*)"`).FindStringSubmatch(body)
			require.NotNil(t, m)
			require.Equal(t, here, html.UnescapeString(m[1]))
		})
	}
}

// A browser takes each of these for another origin or runs it as a script.
func TestTargetOfAnotherOriginIsInert(t *testing.T) {
	for _, bad := range []string{
		"javascript:alert(1)", "JaVaScRiPt:alert(1)", " javascript:alert(1)", "//evil.example/", "/\\evil.example/", "\\\\evil.example",
		"https://evil.example/", "http:evil.example", "data:text/html,x", "/\t/evil.example/", "/\n/evil.example", "\x00//evil.example", "evil.example", "?x=1", "",
		"/" + strings.Repeat("a", 3000),
	} {
		t.Run(bad, func(t *testing.T) {
			v := waiting()
			v.Here, v.StatusURL, v.EventsURL, v.JoinURL, v.LeaveURL, v.PageURL = bad, bad, bad, bad, bad, bad
			for _, s := range states {
				v.State = s
				body := render(t, page.Options{}, v)
				require.NotContains(t, body, "evil.example")
				require.NotContains(t, strings.ToLower(body), "javascript:")
				require.NotContains(t, body, "data:text")
				require.NotContains(t, body, "aaaaaaaa")
				for _, m := range regexp.MustCompile(` href="([^"]*)"`).FindAllStringSubmatch(body, -1) {
					require.True(t, m[1] == "" || m[1] == "/" || strings.HasPrefix(m[1], "data:image/svg+xml,"), m[1])
				}
			}
		})
	}
}

func TestInputIsEscapedEverywhere(t *testing.T) {
	for _, evil := range []string{`"><script>alert(1)</script>`, `</script><script>alert(1)</script>`, `'><img src=x onerror=alert(1)>`, `{{.Nonce}}<!--`, `</title></style><b>`} {
		o := page.Options{Title: evil, Message: evil, Contact: evil, Footer: evil, ShowNumbers: true}
		plain := render(t, page.Options{Title: "x", Message: "x", Contact: "x", Footer: "x", ShowNumbers: true}, waiting())
		v := waiting()
		v.Room, v.Here, v.StatusURL, v.EventsURL, v.JoinURL, v.LeaveURL = evil, "/"+evil, "/"+evil, "/"+evil, "/"+evil, "/"+evil
		v.PageURL = "/_queue/checkout?return=" + url.QueryEscape(evil)
		body := render(t, o, v)
		require.Equal(t, len(tags.FindAllString(scripts.ReplaceAllString(plain, ""), -1)), len(tags.FindAllString(scripts.ReplaceAllString(body, ""), -1)), "not one tag more")
		require.Equal(t, strings.Count(plain, "<script"), strings.Count(body, "<script"))
		require.NotContains(t, body, evil)
		require.Contains(t, seen(t, body), "You are in line for "+strings.Join(strings.Fields(evil), " "), "and still readable")
	}
}

func TestContactIsALinkOnlyWhenItIsAnAddress(t *testing.T) {
	for _, tt := range []struct{ contact, href string }{
		{"https://shop.example/help?a=b&c", `href="https://shop.example/help?a=b&amp;c"`},
		{"help@shop.example", `href="mailto:help@shop.example"`},
		{"Call 0800 1234", ""},
		{"javascript:alert(1)", ""},
		{"Help <help@shop.example>", ""},
	} {
		body := render(t, page.Options{Contact: tt.contact}, waiting())
		footer := body[strings.Index(body, "<footer>"):strings.Index(body, "</footer>")]
		if tt.href == "" {
			require.NotContains(t, footer, "href")
		} else {
			require.Contains(t, footer, tt.href)
		}
		require.Contains(t, html.UnescapeString(footer), tt.contact)
	}
}

func TestPolicyAndNonce(t *testing.T) {
	r := renderer(t, page.Options{})
	used := map[string]bool{}
	for range 50 {
		got, err := r.Render(waiting())
		require.NoError(t, err)
		m := regexp.MustCompile(`^default-src 'none'; style-src 'nonce-([A-Za-z0-9]+)'; script-src 'nonce-([A-Za-z0-9]+)'; connect-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'self'; frame-ancestors 'none'$`).FindStringSubmatch(got.CSP)
		require.NotNil(t, m, got.CSP)
		require.Equal(t, m[1], m[2])
		require.GreaterOrEqual(t, len(m[1]), 22, "128 bits")
		require.False(t, used[m[1]], "a nonce is used once")
		used[m[1]] = true
		body := string(got.Body)
		require.Equal(t, 2, strings.Count(body, m[1]))
		require.Contains(t, body, `<style nonce="`+m[1]+`">`)
		require.Contains(t, body, `<script nonce="`+m[1]+`">`)
		require.Equal(t, 1, strings.Count(body, "<style"))
		require.Equal(t, 2, strings.Count(body, "<script"), "ours, and the words as data")
		require.NotRegexp(t, ` (style|on[a-z]+)="`, body, "nothing the policy would refuse")
	}
}

func TestPageIsSmallAndAsksNobodyElse(t *testing.T) {
	long := func(n int) string { return strings.Repeat(`"`, n) }
	worst := page.Options{Title: long(50), Message: long(500), Contact: long(150), Footer: long(200), ShowNumbers: true}
	for _, s := range page.States() {
		v := waiting()
		v.State = s
		body := render(t, page.Options{Title: "Concert tickets", ShowNumbers: true}, v)
		require.Less(t, len(body), 25_000, s)
		require.NotRegexp(t, `https?://`, strings.ReplaceAll(body, "http://www.w3.org/2000/svg", ""), "no address outside")
		require.NotRegexp(t, `(src|srcset|poster)=|action="[^/]|url\(|@import|sendBeacon|WebSocket|XMLHttpRequest`, body)

		v.Here = "/order/item?" + strings.Repeat("a", 400)
		v.PageURL = "/_queue/checkout?return=" + url.QueryEscape(v.Here)
		for _, v.Language = range []string{"en", "ko", "ja"} {
			require.Less(t, len(render(t, worst, v)), 30<<10, "%s in %s", s, v.Language)
		}
	}
}

func TestTextsThatCannotBeShownAreRefused(t *testing.T) {
	for _, tt := range []struct {
		name string
		o    page.Options
		want string
	}{
		{"long title", page.Options{Title: strings.Repeat("x", 51)}, "page: title: has 51 characters, at most 50 fit; shorten it"},
		{"long message", page.Options{Message: strings.Repeat("ä", 501)}, "page: message: has 501 characters"},
		{"long contact", page.Options{Contact: strings.Repeat("x", 151)}, "page: contact: has 151"},
		{"long footer", page.Options{Footer: strings.Repeat("x", 201)}, "page: footer: has 201"},
		{"broken encoding", page.Options{Footer: "a\xffb"}, "page: footer: is not valid UTF-8"},
		{"control character", page.Options{Title: "a\x00b"}, "page: title: contains the control character U+0000"},
		{"bell", page.Options{Message: "a\ab"}, "U+0007"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := page.New(tt.o)
			require.ErrorContains(t, err, tt.want)
		})
	}
	_, err := page.New(page.Options{Title: strings.Repeat("ä", 50), Message: "a\r\n\tb"})
	require.NoError(t, err)
	_, err = page.New(page.Options{Title: strings.Repeat("x", 51), Footer: "\x01"})
	require.ErrorContains(t, err, "title")
	require.ErrorContains(t, err, "footer", "all problems at once")
}

func TestRendererIsSafeForManyAtOnce(t *testing.T) {
	r := renderer(t, page.Options{Title: "Gig", ShowNumbers: true})
	t.Run("group", func(t *testing.T) {
		for i := range 8 {
			t.Run(fmt.Sprint(i), func(t *testing.T) {
				t.Parallel()
				v := waiting()
				v.Position = int64(1000 + i)
				for range 20 {
					got, err := r.Render(v)
					require.NoError(t, err)
					require.Contains(t, string(got.Body), fmt.Sprintf("1,00%d", i))
				}
			})
		}
	})
}
