package main

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/queuegate/queuegate/config"
	"github.com/queuegate/queuegate/queue"
	"github.com/queuegate/queuegate/token"
)

// Two deployments that share all secrets, as staging and production may, must not
// take each other's passes and tickets: their epochs and admissions are of other lines.
func TestDeploymentsWithOneSecretDoNotShareKeys(t *testing.T) {
	t.Parallel()
	made := func(change func(*config.Config)) signingKeys {
		c := config.Default()
		c.Token.Secret = config.Secret(strings.Repeat("token secret ", 4))
		c.Token.IdentitySecret = config.Secret(strings.Repeat("identity secret ", 4))
		change(&c)
		keys, err := newKeys(&c, nil)
		require.NoError(t, err)
		return keys
	}
	at := time.Unix(1_700_000_000, 0).UTC()
	p := token.Pass{
		Room: "sale", Admission: "1.1", Visitor: token.NewVisitor(), Stage: token.Ready, Epoch: 7, End: at.UnixMilli(),
		IssuedAt: at, Expires: at.Add(time.Minute),
	}
	ours := made(func(*config.Config) {})
	pass, err := ours.passes.Sign(p)
	require.NoError(t, err)
	ticket := ours.tickets.Seal("sale", token.Ticket{Visitor: p.Visitor, Epoch: 7})

	for name, tt := range map[string]struct {
		change func(*config.Config)
		same   bool
	}{
		"another gate":       {func(*config.Config) {}, true},
		"another key prefix": {func(c *config.Config) { c.Redis.KeyPrefix = "staging" }, false},
		"another issuer":     {func(c *config.Config) { c.Token.Issuer = "staging" }, false},
		"a new token secret": {func(c *config.Config) {
			c.Token.Previous = []config.Secret{c.Token.Secret}
			c.Token.Secret = config.Secret(strings.Repeat("new secret ", 4))
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			theirs := made(tt.change)
			_, err := theirs.passes.Verify(pass, "sale")
			_, opened := theirs.tickets.Open("sale", ticket)
			if tt.same {
				require.NoError(t, err)
				require.NoError(t, opened)
				require.Equal(t, ours.identity, theirs.identity)
				return
			}
			require.ErrorIs(t, err, token.ErrRoom)
			require.ErrorIs(t, opened, token.ErrSignature)
			require.NotEqual(t, ours.identity, theirs.identity)
		})
	}
}

// A browser slows the timers of a hidden tab down to once a minute. With the
// defaults, as they come from a file to the line, such a visitor keeps the place
// and gets in.
func TestAHiddenTabKeepsItsPlaceWithTheDefaults(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "queuegate.yaml")
	require.NoError(t, os.WriteFile(file, []byte("upstream: {url: \"http://127.0.0.1:9\"}\nrooms:\n"+
		"  - {name: checkout, protect: [{paths: [/checkout]}], total_active_users: 1}\n"), 0o600))
	c, warnings, err := config.Load(file, nil)
	require.NoError(t, err)
	for _, w := range warnings {
		require.NotContains(t, w.Key, "rooms[0]", "the defaults suit hidden tabs")
	}
	c.Redis.Timeout = time.Minute // a busy machine is no outage
	b, err := build(c, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	t.Cleanup(b.close)
	line, ctx := b.lines[0].line, t.Context()
	require.NoError(t, line.Configure(ctx))
	holder, err := line.Join(ctx, queue.Arrival{Visitor: token.NewVisitor()})
	require.NoError(t, err)
	require.Equal(t, queue.Ready, holder.State)
	pass := queue.Holding{Visitor: holder.Visitor, Admission: holder.Lease.Admission, Place: holder.Place, Epoch: holder.Room.Epoch}
	_, err = line.Claim(ctx, pass)
	require.NoError(t, err)
	hidden, err := line.Join(ctx, queue.Arrival{Visitor: token.NewVisitor()})
	require.NoError(t, err)
	place := hidden.Place
	poll := func(seconds int) {
		for range seconds / 5 {
			require.NoError(t, b.redis.HIncrBy(ctx, "qg:{checkout}:room", "now", 5000).Err())
			_, err := line.Tick(ctx)
			require.NoError(t, err)
		}
		hidden, err = line.Touch(ctx, queue.Sign{
			Visitor: hidden.Visitor, Place: place, Epoch: hidden.Room.Epoch, Due: hidden.Due, Ahead: hidden.Ahead,
		})
		require.NoError(t, err)
	}
	poll(0)
	for range 5 { // five minutes
		poll(65)
		require.Equal(t, queue.Waiting, hidden.State)
		require.Equal(t, place, hidden.Place)
		_, err = line.Renew(ctx, pass)
		require.NoError(t, err)
	}
	_, err = line.Release(ctx, pass)
	require.NoError(t, err)
	poll(65)
	require.Equal(t, queue.Ready, hidden.State)
}
