package main

import (
	"context"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/queuegate/queuegate/config"
)

func TestKeysThatNeedARestartAreNamed(t *testing.T) {
	t.Parallel()
	for key, change := range map[string]func(*config.Config){
		"listen":       func(c *config.Config) { c.Listen = ":1" },
		"tls":          func(c *config.Config) { c.TLS.KeyFile = "other.pem" },
		"h2c":          func(c *config.Config) { c.H2C = true },
		"prefix":       func(c *config.Config) { c.Prefix = "/line" },
		"redis":        func(c *config.Config) { c.Redis.KeyPrefix = "other" },
		"token.issuer": func(c *config.Config) { c.Token.Issuer = "other" },
		"token.identity_secret": func(c *config.Config) {
			c.Token.Previous = []config.Secret{c.Token.Secret}
			c.Token.Secret = "tickets hang on it as well"
		},
		"token.private_key": func(c *config.Config) { c.Token.PrivateKey = "" },
		"admin.listen":      func(c *config.Config) { c.Admin.Listen = ":2" },
		"log":               func(c *config.Config) { c.Log.Format = "text" },
		"shutdown":          func(c *config.Config) { c.Shutdown.Grace = 0 },
	} {
		before := config.Default()
		before.Token.Secret, before.Token.PrivateKey = "a", "b"
		now := before
		change(&now)
		require.Equal(t, []string{key}, needRestart(&before, &now))
	}
	before := config.Default()
	before.Token.Secret, before.Token.IdentitySecret = "a", "identity"
	now := before
	now.Token.Secret = "new"
	require.Equal(t, []string{"token.secret"}, needRestart(&before, &now), "passes are out that it signed")
	now.Token.Previous = []config.Secret{"a"}
	now.Upstream.MaxRequest, now.Rooms, now.Admin.Token = time.Minute, []config.Room{{}}, "other"
	require.Empty(t, needRestart(&before, &now))
}

// The files are looked at every five seconds, and read when they have rested for one.
func TestFilesAreReadOnceForEachContentAndNotWhileTheyAreWritten(t *testing.T) {
	file := filepath.Join(t.TempDir(), "queuegate.yaml")
	write := func(text string) { require.NoError(t, os.WriteFile(file, []byte(text), 0o600)) }
	write("one")
	synctest.Test(t, func(t *testing.T) {
		hangups := make(chan os.Signal, 1)
		files := source{path: file, hangups: hangups}
		files.seen = files.print()
		ctx, cancel := context.WithCancel(t.Context())
		var reads atomic.Int64
		done := make(chan struct{})
		go func() {
			defer close(done)
			files.changes(ctx, func() { reads.Add(1) })
		}()
		after := func(d time.Duration, want int) {
			t.Helper()
			<-time.After(d) // of the bubble: nobody waits
			synctest.Wait()
			require.EqualValues(t, want, reads.Load())
		}
		after(time.Minute+time.Millisecond, 0)
		write("half of t")
		after(5*time.Second, 0)
		write("half of two and more")
		after(time.Second, 0)
		write("half of two and the rest")
		after(time.Second, 0)
		after(time.Second, 1)
		after(time.Minute, 1)
		hangups <- os.Interrupt
		after(0, 2)
		write("three")
		hangups <- os.Interrupt
		after(0, 3)
		after(time.Minute, 3)
		cancel()
		<-done
	})
}
