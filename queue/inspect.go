package queue

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// inspectEvery is how often the servers' settings are looked at: they change by
	// hand and by failovers.
	inspectEvery = 30 * time.Second
	// inspectAgain is how soon after nobody answered.
	inspectAgain = time.Second
)

// Inspector warns of settings of Redis that will hurt: each when it is first
// seen, and again when it comes back after it was gone.
type Inspector struct {
	// Redis is the client whose masters are inspected; required.
	Redis redis.UniversalClient
	// Sentinel says that replicas take over, so that a master that is cut off must
	// stop writing.
	Sentinel bool
	// Log takes the warnings; required.
	Log *slog.Logger

	told map[Finding]bool
}

// Finding is a setting that will hurt.
type Finding struct {
	Node    string // host:port of the server in a Cluster, else empty
	Setting string
	Problem string // what is wrong, what it leads to, and what to set
}

// Run inspects until ctx ends.
func (i *Inspector) Run(ctx context.Context) error {
	for {
		wait := inspectEvery
		if err := i.Tell(ctx); err != nil {
			wait = inspectAgain
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
		}
	}
}

// Tell inspects once and logs what is new. The error says that Redis did not
// answer; then nothing is logged.
func (i *Inspector) Tell(ctx context.Context) error {
	found, err := i.Inspect(ctx)
	if err != nil {
		return err
	}
	now := map[Finding]bool{}
	for _, f := range found {
		now[f] = true
		if !i.told[f] {
			i.Log.WarnContext(ctx, "redis setting", "setting", f.Setting, "problem", f.Problem, "node", f.Node)
		}
	}
	for f := range maps.Keys(i.told) {
		if !now[f] {
			i.Log.InfoContext(ctx, "redis setting no longer a problem", "setting", f.Setting, "node", f.Node)
		}
	}
	i.told = now
	return nil
}

// Inspect lists the settings of all masters that will hurt, in order.
func (i *Inspector) Inspect(ctx context.Context) ([]Finding, error) {
	ctx, cancel := context.WithTimeout(ctx, tickTimeout)
	defer cancel()
	cluster, ok := i.Redis.(*redis.ClusterClient)
	if !ok {
		return i.inspect(ctx, "", i.Redis)
	}
	var (
		mu  sync.Mutex
		all []Finding
	)
	err := cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
		found, err := i.inspect(ctx, node.Options().Addr, node)
		mu.Lock()
		defer mu.Unlock()
		all = append(all, found...)
		return err
	})
	slices.SortFunc(all, func(a, b Finding) int {
		return strings.Compare(a.Node+a.Setting, b.Node+b.Setting)
	})
	return all, err
}

// inspect looks at one server. INFO has nearly everything and is allowed where
// CONFIG is not, as on managed servers.
func (i *Inspector) inspect(ctx context.Context, node string, rdb redis.Cmdable) ([]Finding, error) {
	text, err := rdb.Info(ctx).Result()
	if refused(err) {
		return []Finding{{node, "*", "cannot be checked: the gate's user may not run INFO (ACL: +info +config|get); " +
			"maxmemory-policy must be noeviction and persistence on"}}, nil
	}
	if err != nil {
		return nil, err
	}
	info := parseInfo(text)
	var found []Finding
	if policy := info["maxmemory_policy"]; policy != "" && policy != "noeviction" {
		found = append(found, Finding{node, "maxmemory-policy", "is " + policy +
			": Redis would throw people out of the line when memory runs short; set noeviction"})
	}
	if info["aof_enabled"] == "0" {
		saves, err := snapshots(ctx, rdb)
		switch {
		case refused(err):
			found = append(found, Finding{node, "save", "cannot be checked, and appendonly is off: the gate's user may not run CONFIG GET " +
				"(ACL: +config|get); without any persistence a restart of Redis is a loss of history"})
		case err != nil:
			return nil, err
		case !saves:
			found = append(found, Finding{node, "appendonly",
				"nothing is written to disk: a restart of Redis is a loss of history; set appendonly yes"})
		}
	}
	if _, guarded := info["min_slaves_good_slaves"]; i.Sentinel && !guarded {
		found = append(found, Finding{node, "min-replicas-to-write",
			"a master that is cut off from its replicas goes on admitting beside the one that takes over; set 1 or more"})
	}
	return found, nil
}

// snapshots tells whether Redis writes snapshots to disk.
func snapshots(ctx context.Context, rdb redis.Cmdable) (bool, error) {
	values, err := rdb.ConfigGet(ctx, "save").Result()
	return values["save"] != "", err
}

// refused tells that the server will not say, as opposed to not answering now.
func refused(err error) bool {
	var reply redis.Error
	if !errors.As(err, &reply) {
		return false
	}
	fault := FaultOf(err)
	return fault.Name == permission.Name || fault.Name == "unsupported"
}

// parseInfo reads the answer of INFO: "name:value" lines in sections.
func parseInfo(text string) map[string]string {
	info := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			info[name] = value
		}
	}
	return info
}
