package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/queuegate/queuegate/cmd/queuegate/crowd"
)

// Bounds of a run.
const (
	loadLongest = 6 * time.Hour
	// loadPatience is how long the first answer of a gate may take.
	loadPatience = 10 * time.Second
)

// loadFlags are what can be set about a run.
type loadFlags struct {
	p                         process
	gates                     []string
	visitors, connections     int
	duration, arrive, session time.Duration
	curve                     string
	people                    map[string]int
	seed                      uint64
	room, prefix, path, order string
	form                      string
	active, perMinute, burst  int64
	admins                    []string
	tokenFile, output         string
	ownHost                   bool
	activeSaid, perMinuteSaid bool
	burstSaid                 bool
}

// loadCommand sends visitors to a running gate and judges it by what they meet.
func loadCommand(p process) *cobra.Command {
	o := &loadFlags{p: p}
	cmd := &cobra.Command{
		Use: "load URL...", Short: "Send simulated visitors to a running gate and judge it by what they meet",
		Long: "load sends visitors who behave as people do to the gates at the addresses given, each request to any of them, and\n" +
			"ends with a verdict: was anybody let in beyond the limits, overtaken, lost? It exits with 1 when a promise was broken.\n" +
			"What cannot be judged from outside is said, and not taken for kept.\n\n" +
			"It keeps to the addresses given: no redirect is followed, and without --i-own-this-host only this machine is asked.\n" +
			"The people order and take slots like anybody else: never point it at a shop that is open.",
		Example: "  queuegate demo &\n" +
			"  queuegate load http://127.0.0.1:8080 --visitors 200 --order /orders --admin 127.0.0.1:9090\n" +
			"  queuegate load http://127.0.0.1:8080 --curve ramp --arrive 1m --people reload=30,bot=10 --active 50 --per-minute 600",
		Args: cobra.MinimumNArgs(1),
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.IntVar(&o.visitors, "visitors", 200, fmt.Sprintf("how many `people` come, up to %d", crowd.MostVisitors))
	flags.DurationVar(&o.duration, "duration", 2*time.Minute, "how long the run takes at most; it ends when everybody has gone")
	flags.StringVar(&o.curve, "curve", string(crowd.Flash), "`how` they arrive: flash (four of five at once), ramp (ever more) or steady")
	flags.DurationVar(&o.arrive, "arrive", 20*time.Second, "within what time they arrive")
	flags.StringToIntVar(&o.people, "people", nil, "of how many in a hundred the `manners` are: "+crowd.DefaultShares().String()+", the rest patient (default: as here)")
	flags.DurationVar(&o.session, "session", 15*time.Second, "how long people stay inside, on average")
	flags.StringVar(&o.path, "path", "/checkout", "a protected `path` that answers a GET")
	flags.StringVar(&o.order, "order", "", "the `path` that an order is posted to (default: nobody orders)")
	flags.StringVar(&o.form, "form", "quantity=1", "the `form` that an order posts")
	flags.StringVar(&o.room, "room", "", "the `room` of the path (default: found from the gate's answer)")
	flags.StringVar(&o.prefix, "prefix", "/_queue", "the gate's reserved `path`")
	flags.Int64Var(&o.active, "active", 0, "total_active_users of the room, 0 for none (default: asked of --admin)")
	flags.Int64Var(&o.perMinute, "per-minute", 0, "new_users_per_minute of the room, 0 for none (default: asked of --admin)")
	flags.Int64Var(&o.burst, "burst", 0, "burst of the room (default: asked of --admin)")
	flags.StringArrayVar(&o.admins, "admin", nil, "the admin `address` of a gate, host:port or a URL; may be repeated, one for each gate")
	flags.StringVar(&o.tokenFile, "token-file", "", "the `file` that holds the admin token (default: QUEUEGATE_ADMIN_TOKEN or QUEUEGATE_ADMIN_TOKEN_FILE)")
	flags.IntVar(&o.connections, "connections", 256, fmt.Sprintf("how many requests are under way at once at most, up to %d", crowd.MostConnections))
	flags.Uint64Var(&o.seed, "seed", 1, "the same `number` makes the same people")
	flags.BoolVar(&o.ownHost, "i-own-this-host", false, "allow addresses that are not this machine")
	flags.StringVarP(&o.output, "output", "o", "table", "the `form` of what is printed: table or json")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		o.gates = args
		o.activeSaid, o.perMinuteSaid, o.burstSaid = flags.Changed("active"), flags.Changed("per-minute"), flags.Changed("burst")
		if err := o.validate(cmd.Context()); err != nil {
			return usageError{fmt.Errorf("queuegate load: %w", err)}
		}
		return o.run(cmd.Context())
	}
	return cmd
}

// validate reports the first flag that cannot be.
func (o *loadFlags) validate(ctx context.Context) error {
	switch {
	case o.output != "table" && o.output != "json":
		return fmt.Errorf("--output must be table or json (got %q)", o.output)
	case o.visitors < 1 || o.visitors > crowd.MostVisitors:
		return fmt.Errorf("--visitors must be from 1 to %d (got %d)", crowd.MostVisitors, o.visitors)
	case o.connections < 1 || o.connections > crowd.MostConnections:
		return fmt.Errorf("--connections must be from 1 to %d (got %d)", crowd.MostConnections, o.connections)
	case o.duration <= 0 || o.duration > loadLongest:
		return fmt.Errorf("--duration must be above 0 and at most %v (got %v)", loadLongest, o.duration)
	case o.arrive < 0 || o.arrive > o.duration:
		return fmt.Errorf("--arrive must be from 0 to --duration (got %v)", o.arrive)
	case o.session < 0 || o.session > o.duration:
		return fmt.Errorf("--session must be from 0 to --duration (got %v)", o.session)
	case o.active < 0 || o.perMinute < 0 || o.burst < 0:
		return errors.New("--active, --per-minute and --burst must not be below 0")
	case !slices.Contains(crowd.Curves(), crowd.Curve(o.curve)):
		return fmt.Errorf("--curve must be flash, ramp or steady (got %q)", o.curve)
	}
	for _, address := range append(slices.Clone(o.gates), o.admins...) {
		if err := o.allowed(ctx, address); err != nil {
			return err
		}
	}
	return o.shares().Validate()
}

// allowed reports why an address may not be asked.
func (o *loadFlags) allowed(ctx context.Context, address string) error {
	if !strings.Contains(address, "://") {
		address = "http://" + address
	}
	u, err := url.Parse(address)
	switch {
	case err != nil || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https":
		return fmt.Errorf("%q: want an address such as http://127.0.0.1:8080", address)
	case o.ownHost || crowd.IsLoopback(ctx, u.Hostname()):
		return nil
	default:
		return fmt.Errorf("%s is another machine: load takes slots and orders there; when it is yours and nobody needs it now, say --i-own-this-host", u.Hostname())
	}
}

// shares are those asked for, or the usual.
func (o *loadFlags) shares() crowd.Shares {
	if o.people == nil {
		return crowd.DefaultShares()
	}
	shares := crowd.Shares{}
	for name, n := range o.people {
		shares[crowd.Manner(name)] = n
	}
	return shares
}

// options are those of the crowd.
func (o *loadFlags) options() crowd.Options {
	return crowd.Options{
		Gates: o.gates, Visitors: o.visitors, Seed: o.seed, Room: o.room, Prefix: o.prefix, Path: o.path, Order: o.order, Form: o.form,
		People: o.shares(), Curve: crowd.Curve(o.curve), Arrive: max(o.arrive, 1), StayLeast: o.session / 2, StayMost: max(1, 3*o.session/2),
		Looks: 3, Record: true, Farewell: true, Agent: "queuegate-load", Connections: o.connections, Loopback: !o.ownHost,
		Counts: &crowd.Counts{}, Meters: &crowd.Meters{},
	}
}

// run sends the people and prints the verdict.
func (o *loadFlags) run(ctx context.Context) error {
	if o.room == "" {
		room, err := o.findRoom(ctx)
		if err != nil {
			return err
		}
		o.room = room
	}
	watch, err := o.watch(ctx)
	if err != nil {
		return err
	}
	opts := o.options()
	began := time.Now()
	limited, cancel := context.WithTimeout(ctx, o.duration)
	defer cancel()
	shown := o.progress(limited, opts.Counts, began)
	histories, err := crowd.Run(limited, opts)
	interrupted := ctx.Err() != nil
	cancel()
	<-shown
	if err != nil {
		return usageError{fmt.Errorf("queuegate load: %w", err)}
	}
	took := time.Since(began)
	// An interrupt ends the visits, not the verdict.
	last, done := context.WithTimeout(context.WithoutCancel(ctx), loadPatience)
	defer done()
	watch.finish(last)
	report := newLoadReport(o, opts, histories, watch, took, interrupted)
	if err := report.write(o.p.stdout, o.output == "json"); err != nil {
		return err
	}
	return report.verdict()
}

// findRoom asks for the path as a picture on a page would, which takes no place, and
// reads from the refusal whose path it is.
func (o *loadFlags) findRoom(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, loadPatience)
	defer cancel()
	client := &http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	var failed error
	for _, gate := range o.gates {
		address := strings.TrimSuffix(gate, "/") + o.path
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
		if err != nil {
			return "", usageError{fmt.Errorf("queuegate load: %w", err)}
		}
		req.Header.Set("Accept", "application/json")
		req.Header.Set("Sec-Fetch-Dest", "image")
		resp, err := client.Do(req)
		if err != nil {
			failed = err
			continue
		}
		raw, err := io.ReadAll(io.LimitReader(resp.Body, mostAnswer))
		_ = resp.Body.Close()
		var problem struct{ Type, Room string }
		if err != nil || json.Unmarshal(raw, &problem) != nil || !strings.HasPrefix(problem.Type, "urn:queuegate:problem:") || problem.Room == "" {
			failed = fmt.Errorf("%s answers %s, and not as a gate whose room protects it: is the address right, and --path? Or name the --room", address, resp.Status)
			continue
		}
		return problem.Room, nil
	}
	return "", failed
}

// progress says how it goes, on stderr: a bar that is drawn anew where somebody looks
// at a terminal, else a line now and then. What it returns is closed when it has ended.
func (o *loadFlags) progress(ctx context.Context, counts *crowd.Counts, began time.Time) <-chan struct{} {
	file, ok := o.p.stderr.(*os.File)
	terminal, every := ok && isTerminal(file), 10*time.Second
	if terminal {
		every = time.Second
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		ticker := time.NewTicker(every)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				if terminal {
					fmt.Fprint(o.p.stderr, "\r\x1b[K")
				}
				return
			case <-ticker.C:
				line := progressLine(counts, time.Since(began), o.duration, o.visitors)
				if terminal {
					fmt.Fprint(o.p.stderr, "\r\x1b[K"+progressBar(time.Since(began), o.duration)+" "+line)
				} else {
					fmt.Fprintln(o.p.stderr, line)
				}
			}
		}
	}()
	return ended
}

func progressLine(counts *crowd.Counts, took, of time.Duration, visitors int) string {
	return fmt.Sprintf("%v of %v: %d of %d came, %d waiting, %d inside, %d let in, %d requests, %d failed", took.Round(time.Second), of,
		counts.Arrived.Load(), visitors, counts.Waiting.Load(), counts.Inside.Load(), counts.Admitted.Load(), counts.Requests.Load(), counts.Failed.Load())
}

func progressBar(took, of time.Duration) string {
	const width = 20
	full := int(min(1, took.Seconds()/of.Seconds()) * width)
	return "[" + strings.Repeat("=", full) + strings.Repeat(" ", width-full) + "]"
}
