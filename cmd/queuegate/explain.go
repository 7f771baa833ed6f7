package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/queuegate/queuegate/config"
	"github.com/queuegate/queuegate/proxy"
	"github.com/queuegate/queuegate/proxy/route"
)

// explained is what the command prints as JSON.
type explained struct {
	proxy.Explanation
	// RulePlace is where Rule stands, as queuegate.yaml:12.
	RulePlace string `json:"rule_place,omitempty"`
}

// explainCommand tells what the gate would do with a request, and why.
func explainCommand(p process) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "explain METHOD URL",
		Short: "Tell what the gate makes of a request: its readings, the room, the rule and why",
		Long: "Tells what the gate makes of a request, by the code that serves requests. URL is a path or an absolute URL and is\n" +
			"taken byte for byte as typed; quote it for your shell. Passes are not looked at.",
		Example: "  queuegate explain GET /x/..%2Forders -H 'Host: shop.example'\n" +
			"  queuegate explain POST https://shop.example/orders -H 'Accept: application/json' --from 10.0.0.7",
		Args: cobra.ExactArgs(2),
	}
	path := configFlag(cmd)
	headers := cmd.Flags().StringArrayP("header", "H", nil, "a header of the request, `'Name: value'`; can be repeated")
	from := cmd.Flags().String("from", "", "the `address` the request comes from, for exempt cidrs and trusted_proxies")
	form := cmd.Flags().StringP("output", "o", "table", "table or json")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		if *form != "table" && *form != "json" {
			return usageError{fmt.Errorf("queuegate explain: --output must be table or json (got %q)", *form)}
		}
		c, _, err := load(*path, p)
		if err != nil {
			return err
		}
		typed := typedRequest{method: args[0], target: args[1], headers: *headers, from: *from}
		if err := typed.check(); err != nil {
			return usageError{fmt.Errorf("queuegate explain: %w", err)}
		}
		parts, err := build(c, nil)
		if err != nil {
			return usageError{fmt.Errorf("%s: %w", *path, err)}
		}
		defer parts.close()
		e := explained{Explanation: typed.explain(parts.gate)}
		if line := config.Line(*path, e.Rule); e.Rule != "" && line > 0 {
			e.RulePlace = *path + ":" + strconv.Itoa(line)
		}
		if *form == "json" {
			enc := json.NewEncoder(p.stdout)
			enc.SetEscapeHTML(false)
			enc.SetIndent("", "  ")
			return enc.Encode(e)
		}
		return e.print(p)
	}
	return cmd
}

// typedRequest is a request as it was typed.
type typedRequest struct {
	method, target string
	headers        []string
	from           string
}

// check finds what is no part of a request at all.
func (t typedRequest) check() error {
	for _, text := range append([]string{t.method, t.target}, t.headers...) {
		if strings.ContainsAny(text, "\r\n") {
			return errors.New("a line break cannot stand in a method, a URL or a header")
		}
	}
	for _, h := range t.headers {
		if name, _, ok := strings.Cut(h, ":"); !ok || name == "" {
			return fmt.Errorf("a header is written as 'Name: value' (got %q)", h)
		}
	}
	if _, err := netip.ParseAddr(t.from); t.from != "" && err != nil {
		return fmt.Errorf("--from must be an address such as 192.0.2.1 (got %q)", t.from)
	}
	return nil
}

// explain has the request read by the parser of the server and judged by the
// gate.
func (t typedRequest) explain(g *proxy.Gate) proxy.Explanation {
	head := t.method + " " + t.target + " HTTP/1.1\r\n" + strings.Join(t.headers, "\r\n") + "\r\n\r\n"
	r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(head)))
	if err != nil {
		return proxy.Explanation{
			Method: t.method, Verdict: proxy.VerdictRefused, Status: http.StatusBadRequest,
			Detail: "the server cannot read it as a request: " + err.Error(), Reason: string(proxy.ReasonTarget),
		}
	}
	if t.from != "" {
		r.RemoteAddr = net.JoinHostPort(t.from, "0")
	}
	return g.Explain(r)
}

// print writes e for people.
func (e explained) print(p process) error {
	w := tabwriter.NewWriter(p.stdout, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) { fmt.Fprintf(w, name+"\t"+format+"\n", args...) }
	row("method", "%s", printable(e.Method))
	if e.Target != "" {
		row("target", "%s", printable(e.Target))
		row("host", "%s", e.hostText())
	}
	if e.Client != "" {
		row("client", "%s", e.Client)
	}
	if e.Sender != "" {
		row("sender", "%s", e.Sender)
	}
	if e.MethodOverride {
		row("note", "a header asks for another method: protect rules of all methods apply")
	}
	for i, reading := range e.Readings {
		name := ""
		if i == 0 {
			name = "readings"
		}
		row(name, "%s\t%s", printable(reading.Path), readingText(reading))
	}
	row("verdict", "%s: %s", e.Verdict, e.verdictText())
	if e.Room != "" {
		row("room", "%s", e.Room)
	}
	if e.Rule != "" {
		place := ""
		if e.RulePlace != "" {
			place = " (" + e.RulePlace + ")"
		}
		row("rule", "%s%s", e.Rule, place)
	}
	if why := e.why(); why != "" {
		row("why", "%s", why)
	}
	return w.Flush()
}

// printable is text that a terminal shows as it is; anything else stands in
// quotes with escapes.
func printable(text string) string {
	if quoted := strconv.Quote(text); quoted != `"`+text+`"` {
		return quoted
	}
	return text
}

func (e explained) hostText() string {
	switch {
	case e.Host == "":
		return "(none)"
	case e.UnknownHost:
		return e.Host + " (named in no rule)"
	default:
		return e.Host
	}
}

func readingText(r route.Explained) string {
	switch {
	case r.Reserved:
		return "under the gate's own prefix"
	case r.Room == "":
		return "no room"
	case r.Exempt != "":
		return "room " + r.Room + " by " + r.Rule + ", exempt by " + r.Exempt
	default:
		return "room " + r.Room + " by " + r.Rule
	}
}

// verdictText says what becomes of the request.
func (e explained) verdictText() string {
	switch e.Verdict {
	case proxy.VerdictRefused:
		return fmt.Sprintf("answered with %d, the shop sees nothing", e.Status)
	case proxy.VerdictOwn:
		return "the gate answers it itself, the shop never sees it"
	case proxy.VerdictOpen, proxy.VerdictExempt, proxy.VerdictOff:
		return "to the shop, without a place and without a cookie"
	default:
		return "to the shop with a pass of the room, else " + map[string]string{
			"navigation": "the queue page", "websocket": "a short refusal without a place",
			"passive": "a refusal without a place", "program": "JSON with a place in line",
		}[e.Sender]
	}
}

// why explains Reason in a sentence.
func (e explained) why() string {
	if e.Detail != "" {
		return e.Detail
	}
	return map[string]string{
		route.ReasonReserved:              "a reading lies under the gate's own prefix; an odd spelling of it is 404",
		route.ReasonNoRoom:                "no protect rule covers any reading",
		route.ReasonRule:                  "a protect rule covers a reading",
		route.ReasonUnknownHost:           "no rule names this host, so the rules of every host count",
		route.ReasonExempt:                "exempt rules of the room cover every reading",
		route.ReasonPreflight:             "it is a CORS preflight",
		string(proxy.ReasonSuspended):     "the room is suspended",
		string(proxy.ReasonShadowUnknown): "the room is in shadow: it decides and counts, and diverts nobody",
		string(proxy.ReasonPassthrough):   "the room has no line (queueing_method: passthrough)",
	}[e.Reason]
}
