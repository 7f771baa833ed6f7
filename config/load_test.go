package config_test

import (
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/queuegate/queuegate/config"
)

var update = flag.Bool("update", false, "write the golden files anew")

// hunter2 stands for every secret in testdata/bad; no message may show it.
const hunter2 = "hunter2"

const minimal = `rooms:
  - name: shop
    protect: [{paths: [/order]}]
    total_active_users: 10
`

const goodSecret = "q8Zr2LxT0vB7nYc4WmKd9HsJ6pGf3aEu"

func TestBadFilesAreRefusedWithExactlyThisText(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/bad/*.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			data, err := os.ReadFile(file)
			require.NoError(t, err)
			c, _, err := config.Parse("queuegate.yaml", data, nil)
			require.Error(t, err)
			require.Nil(t, c)
			var problems *config.Problems
			require.ErrorAs(t, err, &problems)
			require.NotContains(t, err.Error(), hunter2)
			require.Len(t, strings.Split(err.Error(), "\n"), len(problems.List), "one problem a line")

			golden(t, strings.TrimSuffix(file, ".yaml")+".want", err.Error()+"\n")
		})
	}
}

func TestGoodFilesLoadWithExactlyTheseWarnings(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/good/*.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			c, warnings, err := config.Load(file, nil)
			require.NoError(t, err)
			require.NotNil(t, c)
			text := ""
			for _, w := range warnings {
				text += w.String() + "\n"
			}
			golden(t, strings.TrimSuffix(file, ".yaml")+".warn", text)

			again, err := c.YAML(false)
			require.NoError(t, err)
			back, _, err := config.Parse("again", again, nil)
			require.NoError(t, err)
			require.Equal(t, yamlOf(t, c), yamlOf(t, back))
		})
	}
}

func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(got), 0o600))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(want), got)
}

func yamlOf(t *testing.T, c *config.Config) string {
	t.Helper()
	text, err := c.YAML(false)
	require.NoError(t, err)
	return string(text)
}

func TestRoomKeysNotGivenGetTheDefaultsOfARoom(t *testing.T) {
	t.Parallel()
	c, _, err := config.Parse("q", []byte(minimal), nil)
	require.NoError(t, err)
	want := config.DefaultRoom()
	want.Name = "shop"
	want.Protect = []config.Rule{{Paths: []string{"/order"}}}
	want.TotalActiveUsers = 10
	require.Equal(t, []config.Room{want}, c.Rooms)
}

func TestExplicitZeroesAndFalsesSurviveTheDefaults(t *testing.T) {
	t.Parallel()
	c, _, err := config.Parse("q", []byte(minimal+`    session_max: 0s
    default_exempt: false
    page: {show_numbers: false}
    consume: {success: [2xx], rejoin_after: 0s}
`), nil)
	require.NoError(t, err)
	r := c.Rooms[0]
	require.Zero(t, r.SessionMax)
	require.False(t, r.DefaultExempt)
	require.False(t, r.Page.ShowNumbers)
	require.Equal(t, []string{"en", "ko", "ja"}, r.Page.Languages)
	require.Equal(t, 5*time.Minute, r.SessionDuration)
}

func TestCapitalsInPathsHostsAndSecretsArePreserved(t *testing.T) {
	t.Parallel()
	c, _, err := config.Parse("q", []byte(`rooms:
  - name: shop
    protect: [{paths: [/Order/Now], hosts: [Shop.Example.COM], case_sensitive: true}]
    total_active_users: 10
`), []string{"QUEUEGATE_TOKEN_SECRET=" + goodSecret})
	require.NoError(t, err)
	require.Equal(t, []string{"/Order/Now"}, c.Rooms[0].Protect[0].Paths)
	require.Equal(t, []string{"Shop.Example.COM"}, c.Rooms[0].Protect[0].Hosts)
	require.Equal(t, goodSecret, c.Token.Secret.Reveal())
}

func TestRoomsDoNotShareTheirDefaults(t *testing.T) {
	t.Parallel()
	a, b := config.DefaultRoom(), config.DefaultRoom()
	a.Page.Languages[0] = "xx"
	require.Equal(t, "en", b.Page.Languages[0])
}

func TestLoadRefusesFilesItCannotRead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	large := filepath.Join(dir, "large.yaml")
	require.NoError(t, os.WriteFile(large, []byte(minimal+"#"+strings.Repeat("x", 1<<20)), 0o600))
	for _, tc := range []struct{ name, path, want string }{
		{"no path", "", "no configuration file is named; rooms can only come from a file (queuegate serve -c queuegate.yaml)"},
		{"a path that does not exist", filepath.Join(dir, "no.yaml"), filepath.Join(dir, "no.yaml") + ": cannot be read: no such file or directory"},
		{"a directory", dir, dir + ": cannot be read: not a regular file"},
		{"a file too large", large, large + ": cannot be read: larger than 1048576 bytes"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			c, _, err := config.Load(tc.path, nil)
			require.EqualError(t, err, tc.want)
			require.Nil(t, c)
		})
	}
	_, _, err := config.Load(filepath.Join(dir, "no.yaml"), nil)
	require.ErrorIs(t, err, fs.ErrNotExist)
}

func TestPreviousSecretsMayStandInFiles(t *testing.T) {
	t.Parallel()
	pem, err := os.ReadFile("testdata/keys/shop.pem")
	require.NoError(t, err)
	c, _, err := config.Parse("q", []byte(minimal+`token:
  previous: [./testdata/keys/old.key, ./testdata/keys/shop.pem, "`+goodSecret+`"]
`), nil)
	require.NoError(t, err)
	require.Equal(t, []config.Secret{"Xk3v9TqLw7RbN2sYc6ZmHd8FgJ4pQaEu", config.Secret(strings.TrimSpace(string(pem))), goodSecret}, c.Token.Previous)
}

func TestValidateJudgesAConfigurationMadeByHand(t *testing.T) {
	t.Parallel()
	c := config.Default()
	_, err := c.Validate()
	require.EqualError(t, err, "rooms: at least one room is required; without one nothing is protected")

	room := config.DefaultRoom()
	room.Name = "shop"
	room.Protect = []config.Rule{{Paths: []string{"/order"}}}
	room.NewUsersPerMinute = 60
	c.Rooms = []config.Room{room}
	warnings, err := c.Validate()
	require.NoError(t, err)
	require.Len(t, warnings, 1)
	require.Equal(t, "redis.url", warnings[0].Key)
}

func TestWarningsComeAlsoWithAnError(t *testing.T) {
	t.Parallel()
	_, warnings, err := config.Parse("q", []byte(minimal+"listn: x\n"), nil)
	require.Error(t, err)
	require.NotEmpty(t, warnings)
}

func TestEmbeddedRedisMeansNeitherURLNorAddrs(t *testing.T) {
	t.Parallel()
	c := config.Default()
	require.True(t, c.EmbeddedRedis())
	c.Redis.URL = "redis://localhost"
	require.False(t, c.EmbeddedRedis())
	c.Redis = config.Redis{Addrs: []string{"localhost:1"}}
	require.False(t, c.EmbeddedRedis())
}

func TestEffectiveBurst(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name              string
		rate, burst, want int
	}{
		{"no rate has no burst", 0, 0, 0},
		{"one second's worth", 3000, 0, 50},
		{"rounded down", 119, 0, 1},
		{"at least one", 30, 0, 1},
		{"as given", 3000, 7, 7},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, config.Room{NewUsersPerMinute: tc.rate, Burst: tc.burst}.EffectiveBurst())
		})
	}
}
