package main_test

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	collected "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	traced "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// collector takes traces as a collector of OpenTelemetry does.
type collector struct {
	*httptest.Server
	mu    sync.Mutex
	spans []*traced.Span
	raw   strings.Builder
}

func newCollector(t *testing.T) *collector {
	c := &collector{}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := io.Reader(r.Body)
		if r.Header.Get("Content-Encoding") == "gzip" {
			unpacked, err := gzip.NewReader(r.Body)
			if err != nil {
				w.WriteHeader(http.StatusBadRequest)
				return
			}
			body = unpacked
		}
		text, err := io.ReadAll(body)
		var sent collected.ExportTraceServiceRequest
		if err != nil || proto.Unmarshal(text, &sent) != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.raw.Write(text)
		for _, resource := range sent.ResourceSpans {
			for _, scope := range resource.ScopeSpans {
				c.spans = append(c.spans, scope.Spans...)
			}
		}
	}))
	endWith(t, c.Server)
	return c
}

// told are the words of each span by name, and all that was sent as it was.
func (c *collector) told() (spans []map[string]string, raw string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.spans {
		words := map[string]string{"name": s.Name, "parent": hexOf(s.ParentSpanId), "trace": hexOf(s.TraceId), "span": hexOf(s.SpanId)}
		for _, a := range s.Attributes {
			words[a.Key] = a.Value.GetStringValue()
		}
		spans = append(spans, words)
	}
	return spans, c.raw.String()
}

func hexOf(b []byte) string {
	const digits = "0123456789abcdef"
	var text strings.Builder
	for _, n := range b {
		text.WriteByte(digits[n>>4])
		text.WriteByte(digits[n&15])
	}
	return text.String()
}

const strangersTrace = "00-0123456789abcdef0123456789abcdef-0123456789abcdef-01"

func TestTracesTellWhatTheGateDecidedAndNothingThatIsSecret(t *testing.T) {
	t.Parallel()
	c, shop := newCollector(t), newRecordingShop(t)
	config := writeConfig(t, plan{rooms: room("total_active_users: 1"), redis: "url: \"\"", more: "trusted_proxies: [127.0.0.2/32]"}, shop.URL, "")
	g := startGate(t, config, "OTEL_EXPORTER_OTLP_ENDPOINT="+c.URL, "OTEL_BSP_SCHEDULE_DELAY=100")
	g.waitReady(t)
	holder, waiting := newApp(t), newApp(t)
	holder.enter(t, g)
	_, err := waiting.send(request{method: "GET", url: g.url + "/checkout?card=4111", header: map[string]string{"traceparent": strangersTrace}})
	require.NoError(t, err)
	_, err = waiting.send(request{method: "GET", url: g.url + "/public?card=4111", header: map[string]string{"traceparent": strangersTrace}})
	require.NoError(t, err)

	var spans []map[string]string
	find := func(is func(map[string]string) bool) map[string]string {
		spans, _ = c.told()
		for _, s := range spans {
			if is(s) {
				return s
			}
		}
		return nil
	}
	eventually(t, "the one who waits and the public page are told of", func() bool {
		return find(func(s map[string]string) bool {
			return s["queuegate.room"] == "checkout" && s["queuegate.decision"] == "queued"
		}) != nil && find(func(s map[string]string) bool {
			return s["queuegate.room"] == "" && s["queuegate.decision"] == "proxied"
		}) != nil
	})
	public := find(func(s map[string]string) bool {
		return s["queuegate.room"] == "" && s["queuegate.decision"] == "proxied"
	})
	require.Equal(t, "GET", public["name"])
	require.Equal(t, "GET checkout", find(func(s map[string]string) bool { return s["queuegate.decision"] == "queued" })["name"])
	for _, s := range spans {
		require.NotEqual(t, "join", s["queuegate.reason"], "what a crowd asks again and again is no span")
	}
	got := shop.last(t, "/public").Header.Get("Traceparent")
	require.Equal(t, "00-"+public["trace"]+"-"+public["span"]+"-01", got, "the shop goes on with the gate's span")
	require.NotContains(t, got, "0123456789abcdef", "a stranger's trace is not gone on with")
	_, raw := c.told()
	for _, secret := range []string{"4111", holder.pass, "eyJ", "/checkout", "/public", "127.0.0.1"} {
		require.NotContains(t, raw, secret)
	}
	require.Contains(t, raw, "queuegate", "the service has its name")

	require.NoError(t, g.cmd.Process.Signal(os.Interrupt))
	require.Zero(t, g.exit(t))
}

func TestNobodyNoticesThatTracesAreOffOrCannotBeDelivered(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		env    []string
		traced bool
	}{
		"nothing is asked for":  {nil, false},
		"the SDK is disabled":   {[]string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1", "OTEL_SDK_DISABLED=true"}, false},
		"no exporter is wanted": {[]string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1", "OTEL_TRACES_EXPORTER=none"}, false},
		"nobody listens":        {[]string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1", "OTEL_BSP_SCHEDULE_DELAY=10"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			shop := newRecordingShop(t)
			config := writeConfig(t, plan{rooms: room("total_active_users: 1"), redis: "url: \"\""}, shop.URL, "")
			g := startGate(t, config, c.env...)
			for range 3 {
				got, err := newApp(t).send(request{method: "GET", url: g.url + "/public", header: map[string]string{"traceparent": strangersTrace}})
				require.NoError(t, err)
				require.Equal(t, http.StatusOK, got.code)
			}
			passed := shop.last(t, "/public").Header.Get("Traceparent")
			require.Equal(t, !c.traced, passed == strangersTrace, "the client's own header: %s", passed)
			if c.traced {
				require.NotEmpty(t, passed)
			}
			require.NoError(t, g.cmd.Process.Signal(os.Interrupt))
			require.Zero(t, g.exit(t))
			require.LessOrEqual(t, strings.Count(g.stderr.String(), "traces cannot be delivered"), 1)
		})
	}
}

func TestTracesThatCannotBeMadeAreRefusedAtTheStart(t *testing.T) {
	t.Parallel()
	config := writeConfig(t, plan{rooms: room("total_active_users: 1"), redis: "url: \"\""}, "http://127.0.0.1:9000", "")
	for env, want := range map[string]string{
		"OTEL_TRACES_EXPORTER=jaeger":      `OTEL_TRACES_EXPORTER: "jaeger" is not supported; use otlp, or none for no traces`,
		"OTEL_EXPORTER_OTLP_PROTOCOL=grpc": `OTEL_EXPORTER_OTLP_PROTOCOL: "grpc" is not supported; use http/protobuf, on most collectors port 4318`,
	} {
		p := run(t, []string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4318", env}, "serve", "-c", config)
		require.Equal(t, 2, p.exit(t))
		require.Contains(t, p.stderr.String(), want)
	}
}
