package stream_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/queuegate/queuegate/proxy/stream"
)

// piped is an answer over a pipe, whose time is that of the test.
type piped struct {
	*httptest.ResponseRecorder
	conn net.Conn
}

func (p piped) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return p.conn, bufio.NewReadWriter(bufio.NewReader(p.conn), bufio.NewWriter(p.conn)), nil
}

// Streams move on to gates that were added, and not all at once.
func TestAStreamEndsAfterItsTimeWithAWordWhenToComeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hub := stream.NewHub(stream.NewQuota(100), nil)
		began := time.Now()
		ends := make(chan time.Duration, 30)
		for i := range 30 {
			client, server := net.Pipe()
			s, err := hub.Open(strconv.Itoa(i), &talker{data: []byte(`{"a":1}`)})
			require.NoError(t, err)
			require.True(t, s.ServeEvents(piped{httptest.NewRecorder(), server}, httptest.NewRequest(http.MethodGet, "/", nil),
				stream.Message{Event: stream.Update, Data: []byte(`{"first":1}`)}))
			go func() {
				defer client.Close()
				text, err := io.ReadAll(client)
				last := text[strings.LastIndex(string(text[:len(text)-2]), "\n\n")+2:]
				if err != nil || !strings.HasPrefix(string(last), "retry: ") || !strings.Contains(string(last), "event: closed\n") {
					t.Errorf("the last word is %q, %v", last, err)
				}
				ends <- time.Since(began)
			}()
		}
		first, last := <-ends, time.Duration(0)
		for range 29 {
			last = <-ends
		}
		hub.Close()
		require.Greater(t, first, 15*time.Minute)
		require.Less(t, last, 25*time.Minute)
		require.Greater(t, last-first, 4*time.Minute)
	})
}

func TestWhatConcernsEverybodyIsLookedForSoonAndNotTooOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := make(chan struct{})
		hub := stream.NewHub(stream.NewQuota(1), func(ctx context.Context, tell func([]string)) error {
			for {
				select {
				case <-ctx.Done():
					return ctx.Err()
				case <-all:
					tell(nil)
				}
			}
		})
		f := &talker{data: []byte(`{"a":1}`)}
		client, server := net.Pipe()
		s, err := hub.Open("one", f)
		require.NoError(t, err)
		require.True(t, s.ServeEvents(piped{httptest.NewRecorder(), server}, httptest.NewRequest(http.MethodGet, "/", nil), stream.Message{Data: []byte(`{"a":1}`)}))
		go func() { _, _ = io.Copy(io.Discard, client) }()
		time.Sleep(time.Second + time.Millisecond)
		synctest.Wait()
		looked := f.looks.Load()
		require.EqualValues(t, 2, looked, "twice a second by itself")
		for range 199 { // for a fifth of a second
			all <- struct{}{}
			time.Sleep(time.Millisecond)
		}
		synctest.Wait()
		require.Greater(t, f.looks.Load(), looked)
		require.LessOrEqual(t, f.looks.Load(), looked+3)
		hub.Close()
		_ = client.Close()
	})
}
