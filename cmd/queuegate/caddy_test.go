//go:build caddy

package main_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// Building Caddy takes minutes, so this test stands apart: make test-caddy.
func TestJourneyThroughCaddyThatAsksTheGate(t *testing.T) {
	t.Parallel()
	front, shop := startFront(t, func(t testing.TB, front, gateURL, shopURL string) {
		program := os.Getenv("CADDY")
		require.NotEmpty(t, program, "CADDY must name the program; make test-caddy builds it")
		file := filepath.Join(t.TempDir(), "Caddyfile")
		require.NoError(t, os.WriteFile(file, []byte(example(t, "Caddyfile", front, gateURL, shopURL)), 0o600))
		daemon(t, front, program, "run", "--config", file, "--adapter", "caddyfile")
	}, room("total_active_users: 1"))
	journeyThroughFront(t, front, shop)
}

func TestPeopleBehindCaddyThatEndsTLSThroughCaddy(t *testing.T) {
	t.Parallel()
	journeyBehind(t, startBehind(t, func(t testing.TB, front, public, admin string) {
		file := filepath.Join(t.TempDir(), "Caddyfile")
		require.NoError(t, os.WriteFile(file, []byte(exampleInFront(t, "Caddyfile", front, public, admin)), 0o600))
		daemon(t, front, os.Getenv("CADDY"), "run", "--config", file, "--adapter", "caddyfile")
	}))
}
