package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.37.0"
	api "go.opentelemetry.io/otel/trace"

	"github.com/queuegate/queuegate/proxy"
)

const (
	// troubleEvery is how often it is told at most that traces cannot be delivered.
	troubleEvery = time.Minute
	// lastTraces bounds the delivery of what is left when the gate ends.
	lastTraces = 3 * time.Second
)

// tracing makes a span of each request, as the environment of OpenTelemetry says. It
// writes its own spans instead of a library's, because those show paths, agents and
// addresses, which here may be anything that a stranger wrote; ours show words of the
// gate and of the configuration.
type tracing struct {
	provider *trace.TracerProvider
	tracer   api.Tracer
	context  propagation.TraceContext
}

// newTracing reads the environment; nil when it asks for no traces.
func newTracing(ctx context.Context, log *slog.Logger) (*tracing, error) {
	set := func(names ...string) string {
		for _, name := range names {
			if value := os.Getenv(name); value != "" {
				return value
			}
		}
		return ""
	}
	switch exporter := set("OTEL_TRACES_EXPORTER"); {
	case set("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT") == "",
		strings.EqualFold(set("OTEL_SDK_DISABLED"), "true"), exporter == "none":
		return nil, nil
	case exporter != "" && exporter != "otlp":
		return nil, fmt.Errorf("OTEL_TRACES_EXPORTER: %q is not supported; use otlp, or none for no traces", exporter)
	}
	if spoken := set("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"); spoken != "" && spoken != "http/protobuf" {
		return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_PROTOCOL: %q is not supported; use http/protobuf, on most collectors port 4318", spoken)
	}
	exporter, err := otlptracehttp.New(ctx)
	if err != nil {
		return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_ENDPOINT: %w", err)
	}
	// What the environment says of the service comes last and so counts.
	about, err := resource.New(ctx, resource.WithAttributes(semconv.ServiceName("queuegate"), semconv.ServiceVersion(version)), resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	otel.SetErrorHandler(&seldom{log: log}) // the library has one for the whole process
	t := &tracing{provider: trace.NewTracerProvider(trace.WithBatcher(exporter), trace.WithResource(about))}
	t.tracer = t.provider.Tracer("github.com/queuegate/queuegate")
	return t, nil
}

// around gives each request of h a span, but for those below prefix: a crowd polls, and
// would be all that there is in the traces. A span's parent is believed only of the peers whose
// X-Forwarded-* is: whether a trace is recorded is not a stranger's to say. The shop gets
// the span in traceparent.
func (t *tracing) around(h http.Handler, prefix string, trusted []netip.Prefix) http.Handler {
	if t == nil {
		return h
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL == nil || strings.HasPrefix(r.URL.Path, prefix+"/") {
			h.ServeHTTP(w, r)
			return
		}
		ctx := r.Context()
		if believed(r.RemoteAddr, trusted) {
			ctx = t.context.Extract(ctx, propagation.HeaderCarrier(r.Header))
		}
		ctx, span := t.tracer.Start(ctx, method(r), api.WithSpanKind(api.SpanKindServer))
		defer span.End()
		r = r.WithContext(ctx)
		r.Header = r.Header.Clone()
		for _, name := range t.context.Fields() {
			r.Header.Del(name)
		}
		t.context.Inject(ctx, propagation.HeaderCarrier(r.Header))
		h.ServeHTTP(w, r)
	})
}

// observe completes the span of a request with what became of it.
func (t *tracing) observe(o proxy.Observation) {
	if t == nil || o.Context == nil {
		return
	}
	span := api.SpanFromContext(o.Context)
	if !span.IsRecording() {
		return
	}
	attributes := []attribute.KeyValue{
		attribute.String("queuegate.decision", string(o.Outcome)), attribute.String("queuegate.reason", string(o.Reason)),
	}
	if o.Room != "" {
		attributes = append(attributes, attribute.String("queuegate.room", o.Room))
		if named, ok := span.(trace.ReadOnlySpan); ok {
			span.SetName(named.Name() + " " + o.Room)
		}
	}
	if o.Status != 0 {
		attributes = append(attributes, semconv.HTTPResponseStatusCode(o.Status))
	}
	if o.Shop.Failure != "" {
		span.SetStatus(codes.Error, "the shop: "+string(o.Shop.Failure))
	}
	span.SetAttributes(attributes...)
}

// close delivers what is left.
func (t *tracing) close() {
	if t == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), lastTraces)
	defer cancel()
	_ = t.provider.Shutdown(ctx)
}

// method names a span; a method that nobody knows has no name, so that names are few.
func method(r *http.Request) string {
	known := []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}
	if slices.Contains(known, r.Method) {
		return r.Method
	}
	return "HTTP"
}

// believed tells whether a peer is one of those that are trusted.
func believed(peer string, trusted []netip.Prefix) bool {
	at, err := netip.ParseAddrPort(peer)
	return err == nil && slices.ContainsFunc(trusted, func(p netip.Prefix) bool { return p.Contains(at.Addr().Unmap()) })
}

// seldom tells of trouble with traces once a minute at most.
type seldom struct {
	log  *slog.Logger
	mu   sync.Mutex
	told time.Time
}

// Handle implements otel.ErrorHandler.
func (s *seldom) Handle(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := time.Now(); now.Sub(s.told) >= troubleEvery {
		s.told = now
		s.log.Warn("traces cannot be delivered; requests are served all the same", "error", err.Error())
	}
}
