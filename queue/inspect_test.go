package queue_test

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/queuegate/queuegate/queue"
	"github.com/queuegate/queuegate/queue/queuetest"
)

// found lists the settings that the inspector finds fault with.
func found(t *testing.T, rdb redis.UniversalClient, sentinel bool) (settings []string) {
	t.Helper()
	all, err := (&queue.Inspector{Redis: rdb, Sentinel: sentinel}).Inspect(t.Context())
	require.NoError(t, err)
	for _, f := range all {
		require.NotEmpty(t, f.Problem)
		settings = append(settings, strings.TrimSpace(f.Node+" "+f.Setting))
	}
	return settings
}

func TestSettingsOfRedisThatWillHurtAreFound(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name     string
		args     []string
		rules    []string // of the gate's user, when it is not the default one
		sentinel bool
		want     []string
	}{
		{"a log of all writes", []string{"--appendonly", "yes"}, nil, false, nil},
		{"snapshots", []string{"--save", "3600 1"}, nil, false, nil},
		{"nothing on disk", nil, nil, false, []string{"appendonly"}},
		{"people thrown out when memory runs short", []string{"--appendonly", "yes", "--maxmemory-policy", "allkeys-lru"}, nil, false, []string{"maxmemory-policy"}},
		{"a master that writes alone", []string{"--appendonly", "yes"}, nil, true, []string{"min-replicas-to-write"}},
		{"a master that does not", []string{"--appendonly", "yes", "--min-replicas-to-write", "1"}, nil, true, nil},
		{"all of them", []string{"--maxmemory-policy", "volatile-ttl"}, nil, true, []string{"maxmemory-policy", "appendonly", "min-replicas-to-write"}},
		{"CONFIG forbidden, and INFO says enough", []string{"--appendonly", "yes"}, []string{"+info"}, false, nil},
		{"CONFIG forbidden, and INFO does not", nil, []string{"+info"}, false, []string{"save"}},
		{"CONFIG gone, as on managed servers", []string{"--rename-command", "CONFIG", ""}, nil, false, []string{"save"}},
		{"INFO forbidden", []string{"--maxmemory-policy", "allkeys-lru"}, []string{"+config|get"}, true, []string{"*"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			server := queuetest.Start(t, test.args...)
			rdb := redis.UniversalClient(server.Client(t))
			if test.rules != nil {
				user := []any{"ACL", "SETUSER", "gate", "on", ">secret", "+@all", "-@dangerous"}
				for _, rule := range test.rules {
					user = append(user, rule)
				}
				require.NoError(t, rdb.Do(t.Context(), user...).Err())
				rdb = queuetest.NewClient(t, queue.ClientOptions{URL: server.URL, Username: "gate", Password: "secret", Timeout: queuetest.Timeout})
			}
			require.Equal(t, test.want, found(t, rdb, test.sentinel))
		})
	}
	t.Run("each master of a Cluster", func(t *testing.T) {
		t.Parallel()
		cluster := queuetest.StartCluster(t)
		require.NoError(t, cluster.Servers[1].Client(t).ConfigSet(t.Context(), "save", "3600 1").Err())
		rdb := queuetest.NewClient(t, queue.ClientOptions{Addrs: cluster.Addrs, Timeout: queuetest.Timeout})
		require.ElementsMatch(t, []string{cluster.Addrs[0] + " appendonly", cluster.Addrs[2] + " appendonly"}, found(t, rdb, false))
	})
}

func TestASettingIsToldWhenItChangesAndNotEachTime(t *testing.T) {
	t.Parallel()
	server := queuetest.Start(t, "--appendonly", "yes")
	rdb := server.Client(t)
	var log bytes.Buffer
	inspector := queue.Inspector{Redis: rdb, Log: slog.New(slog.NewTextHandler(&log, nil))}
	tell := func() (warned, well int) {
		t.Helper()
		log.Reset()
		require.NoError(t, inspector.Tell(t.Context()))
		require.NoError(t, inspector.Tell(t.Context()))
		return strings.Count(log.String(), "level=WARN"), strings.Count(log.String(), "no longer a problem")
	}
	set := func(policy string) { require.NoError(t, rdb.ConfigSet(t.Context(), "maxmemory-policy", policy).Err()) }
	for _, step := range []struct {
		policy       string
		warned, well int
	}{{"noeviction", 0, 0}, {"allkeys-lru", 1, 0}, {"allkeys-lru", 0, 0}, {"noeviction", 0, 1}, {"allkeys-lfu", 1, 0}} {
		set(step.policy)
		warned, well := tell()
		require.Equal(t, step.warned, warned, "%s: %s", step.policy, &log)
		require.Equal(t, step.well, well, "%s: %s", step.policy, &log)
	}

	server.Kill()
	log.Reset()
	require.Error(t, inspector.Tell(t.Context()))
	require.Empty(t, log.String(), "an outage is the line's to tell")
	server.Resume(t)
	require.Eventually(t, func() bool { return inspector.Tell(context.Background()) == nil }, eventual, 10*time.Millisecond)
	require.Contains(t, log.String(), "no longer a problem", "the server has forgotten what was set by hand")
}

// The README names the rights that the gate's user needs.
func TestTheRightsInTheREADMEAreEnough(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("../README.md")
	require.NoError(t, err)
	rule := regexp.MustCompile(`(?m)^ACL SETUSER gate .*$`).Find(readme)
	require.NotEmpty(t, rule)
	server := queuetest.Start(t, "--appendonly", "yes")
	root := server.Client(t)
	var user []any
	for word := range strings.FieldsSeq(string(rule)) {
		user = append(user, strings.Replace(word, ">PASSWORD", ">secret", 1))
	}
	require.NoError(t, root.Do(t.Context(), user...).Err())
	rdb := queuetest.NewClient(t, queue.ClientOptions{URL: server.URL, Username: "gate", Password: "secret", Timeout: queuetest.Timeout})
	require.Error(t, rdb.Get(t.Context(), "other").Err())
	require.Error(t, rdb.FlushAll(t.Context()).Err())
	require.Error(t, rdb.ConfigSet(t.Context(), "appendonly", "no").Err())

	require.Empty(t, found(t, rdb, false))
	line := newLine(t, rdb, func(o *queue.Options) { o.Limits = queue.Limits{Slots: 2, PerMinute: 600} })
	inside := enter(t, line, 1, 2)
	front, behind := touch(t, line, join(t, line, 10)), touch(t, line, join(t, line, 11))
	_, err = line.Renew(t.Context(), holding(inside[0]))
	require.NoError(t, err)
	heard := root.Subscribe(t.Context(), line.Keys()[0])
	defer func() { _ = heard.Close() }()
	_, err = heard.Receive(t.Context())
	require.NoError(t, err)
	require.Equal(t, queue.Ended, release(t, line, inside[0]).State)
	_, err = heard.ReceiveTimeout(t.Context(), queuetest.Timeout)
	require.NoError(t, err, "hints are published")
	turn(t, line)
	require.Equal(t, queue.Ready, touch(t, line, front).State)
	require.Equal(t, queue.Ended, leave(t, line, behind).State)
	advance(t, line, rdb, 10*time.Minute)
	turn(t, line)
	require.NoError(t, line.Heal(t.Context()))
}
