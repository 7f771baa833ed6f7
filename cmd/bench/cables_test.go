package main

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPeopleAskAgainWhereTheGateHangsUp has every third request end without an
// answer, in a new connection or a kept one.
func TestPeopleAskAgainWhereTheGateHangsUp(t *testing.T) {
	var asked, visits atomic.Int64
	claims := base64.RawURLEncoding.EncodeToString([]byte(`{"jti":"7.9","place":7}`))
	pass := "x." + claims + ".x"
	gate := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1)%3 == 0 {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err == nil {
				_ = conn.Close()
			}
			return
		}
		switch r.URL.Path {
		case joinPath:
			_, _ = fmt.Fprint(w, `{"status":"waiting","ahead":0,"poll_after_ms":20,"ticket":"mine"}`)
		case statusPath:
			_, _ = fmt.Fprintf(w, `{"status":"ready","entry_token":%q,"ticket":%q}`, pass, r.Header.Get(ticketName))
		case shopPath:
			visits.Add(1)
			_, _ = fmt.Fprint(w, r.Header.Get(passName) == pass)
		}
	}))
	defer gate.Close()
	p := newPeople(sale{people: 20, rate: 1000})
	require.NoError(t, p.run(t.Context(), gate.URL))
	require.EqualValues(t, 20, visits.Load())
	require.Greater(t, asked.Load(), int64(60), "some asked again")
	for i := range p.all {
		require.True(t, p.all[i].in)
		require.EqualValues(t, 7, p.all[i].place)
		require.EqualValues(t, 9, p.all[i].granted)
	}
}

func TestAnAnswerIsReadWhenAllOfItIsThere(t *testing.T) {
	const answer = "HTTP/1.1 200 OK\r\nContent-Type: x/y\r\nContent-Length: 5\r\n\r\nhello"
	for n := range len(answer) {
		h, err := parse([]byte(answer[:n]))
		require.NoError(t, err)
		require.Nil(t, h, answer[:n])
	}
	h, err := parse([]byte(answer))
	require.NoError(t, err)
	require.Equal(t, 200, h.code)
	require.Equal(t, "x/y", h.get("Content-Type"))
	require.Equal(t, "hello", string(h.body))
	for _, wrong := range []string{answer + "H", "HTTP/1.1 200 OK\r\n\r\nhello", "\r\n\r\n", "HTTP/1.1 two OK\r\nContent-Length: 0\r\n\r\n"} {
		_, err := parse([]byte(wrong))
		require.Error(t, err, wrong)
	}
}
