package main_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTheCurlLoopOfTheReadmeGetsIn runs the loop as it is printed there, but for the
// name of the shop.
func TestTheCurlLoopOfTheReadmeGetsIn(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	loop := regexp.MustCompile("(?s)```sh\n(until curl [^`]*)```").FindSubmatch(readme)
	require.NotNil(t, loop, "README shows a loop of curl")

	f := startFleet(t, plan{gates: 1, rooms: room("total_active_users: 1")})
	g := f.gates[0]
	holder := newApp(t)
	holder.enter(t, g)
	inside := len(f.shop.got("/checkout"))
	dir, log := t.TempDir(), &output{}
	cmd := exec.CommandContext(t.Context(), "sh", "-ec", strings.ReplaceAll(string(loop[1]), "https://shop.example", g.url))
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, log, log
	require.NoError(t, cmd.Start())
	eventually(t, "the loop stands in line", func() bool { return people(t, f.redis.Client(t)) == 1 })
	eventually(t, "and asks again", func() bool { return strings.Count(log.String(), "429") >= 2 })
	require.EqualValues(t, 1, people(t, f.redis.Client(t)), "at the one place it has")
	require.Len(t, f.shop.got("/checkout"), inside)

	_, err = holder.release(g)
	require.NoError(t, err)
	require.NoError(t, cmd.Wait(), "%s", log)
	got, err := os.ReadFile(filepath.Join(dir, "checkout.html"))
	require.NoError(t, err)
	require.Equal(t, "the shop's answer to GET /checkout", string(got))
	require.Len(t, f.shop.got("/checkout"), inside+1)
}
