package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/queuegate/queuegate/config"
)

func TestEnvironmentOverridesFileAndDefaults(t *testing.T) {
	t.Parallel()
	file := minimal + `listen: ":1"
log: {level: warn}
trusted_proxies: [10.0.0.0/8, 192.168.0.0/16, 172.16.0.0/12]
`
	c, _, err := config.Parse("q", []byte(file), []string{
		"QUEUEGATE_LISTEN=:2",
		"QUEUEGATE_REDIS_TIMEOUT=1.5s",
		"QUEUEGATE_READINESS_REQUIRE_REDIS=true",
		"QUEUEGATE_TRUSTED_PROXIES=fd00::/8, 10.1.0.0/16",
		"QUEUEGATE_TOKEN_SECRET=" + goodSecret + "\n",
		"QUEUEGATE_TOKEN_PREVIOUS=" + goodSecret + ",Xk3v9TqLw7RbN2sYc6ZmHd8FgJ4pQaEu",
		"QUEUEGATE_UPSTREAM_URL=http://a=b.example",
		"PATH=/bin", "QUEUEGATE=x", "queuegate_listen=x",
	})
	require.NoError(t, err)
	require.Equal(t, ":2", c.Listen)
	require.Equal(t, "warn", c.Log.Level, "what the environment does not name stays as in the file")
	require.Equal(t, "json", c.Log.Format, "and at its default")
	require.Equal(t, 1500*time.Millisecond, c.Redis.Timeout)
	require.Equal(t, "qg", c.Redis.KeyPrefix)
	require.True(t, c.Readiness.RequireRedis)
	require.Equal(t, []string{"fd00::/8", "10.1.0.0/16"}, c.TrustedProxies, "a shorter list keeps nothing of the longer")
	require.Equal(t, goodSecret, c.Token.Secret.Reveal())
	require.Len(t, c.Token.Previous, 2)
	require.Equal(t, "http://a=b.example", c.Upstream.URL)
	require.Equal(t, "shop", c.Rooms[0].Name)
}

func TestAVariableCanEmptyAListOrAText(t *testing.T) {
	t.Parallel()
	c, _, err := config.Parse("q", []byte(minimal+"trusted_proxies: [10.0.0.0/8]\nredis: {username: \"\"}\n"),
		[]string{"QUEUEGATE_TRUSTED_PROXIES=", "QUEUEGATE_REDIS_USERNAME="})
	require.NoError(t, err)
	require.Empty(t, c.TrustedProxies)
}

func TestAVariableMendsAKeyTheFileSpoils(t *testing.T) {
	t.Parallel()
	_, _, err := config.Parse("q", []byte(minimal+"redis: {timeout: 5}\n"), []string{"QUEUEGATE_REDIS_TIMEOUT=9s"})
	require.EqualError(t, err, `q:5: redis.timeout: needs a unit; write 5s, 5m or 5ms (got "5")
QUEUEGATE_REDIS_TIMEOUT: redis.timeout: must be between 1ms and 5s (got "9s")`, "both layers are judged")
}

func TestSecretFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	data, err := os.ReadFile("testdata/keys/pass-ed25519.pem")
	require.NoError(t, err)
	pem := string(data)
	c, _, err := config.Parse("q", []byte(minimal), []string{
		"QUEUEGATE_TOKEN_SECRET_FILE=" + write("secret", goodSecret+"\r\n"),
		"QUEUEGATE_TOKEN_PREVIOUS_FILE=" + write("previous", "Xk3v9TqLw7RbN2sYc6ZmHd8FgJ4pQaEu\n\n"+pem+goodSecret+"\n"),
		"QUEUEGATE_TOKEN_PRIVATE_KEY_FILE=" + write("key", pem),
		"QUEUEGATE_REDIS_URL_FILE=" + write("url", "redis://:pw@localhost\n"),
	})
	require.NoError(t, err)
	require.Equal(t, goodSecret, c.Token.Secret.Reveal())
	require.Equal(t, []config.Secret{"Xk3v9TqLw7RbN2sYc6ZmHd8FgJ4pQaEu", config.Secret(pem), goodSecret}, c.Token.Previous)
	key, err := c.Token.PrivateKey.PrivateKey()
	require.NoError(t, err)
	require.NotNil(t, key)
	require.Equal(t, "redis://:pw@localhost", c.Redis.URL.Reveal())
	require.Equal(t, "redis://localhost", c.Redis.Address())
}

func TestBadEnvironmentIsRefusedWithTheNameOfTheVariable(t *testing.T) {
	t.Parallel()
	empty := filepath.Join(t.TempDir(), "empty")
	require.NoError(t, os.WriteFile(empty, []byte("\n"), 0o600))
	for _, tc := range []struct {
		name string
		env  []string
		want string
	}{
		{"a misspelled variable", []string{"QUEUEGATE_REDIS_TIMEOT=1s"},
			"QUEUEGATE_REDIS_TIMEOT: unknown variable; did you mean QUEUEGATE_REDIS_TIMEOUT?"},
		{"a variable like none", []string{"QUEUEGATE_ZEBRA=1s"},
			"QUEUEGATE_ZEBRA: unknown variable; unset it"},
		{"a section", []string{"QUEUEGATE_REDIS=tcp://10.0.0.1:6379"},
			"QUEUEGATE_REDIS: unknown variable; unset it"},
		{"a room", []string{"QUEUEGATE_ROOMS_0_NAME=x"},
			"QUEUEGATE_ROOMS_0_NAME: rooms can only be set in the file; unset it"},
		{"a name over two lines", []string{"QUEUEGATE_\nX=1"},
			`"QUEUEGATE_\nX": unknown variable; unset it`},
		{"a file for what is no secret", []string{"QUEUEGATE_LISTEN_FILE=/x"},
			"QUEUEGATE_LISTEN_FILE: unknown variable; unset it"},
		{"a number with letters", []string{"QUEUEGATE_JOIN_LIMIT_PER_MINUTE=9x"},
			`QUEUEGATE_JOIN_LIMIT_PER_MINUTE: join_limit.per_minute: must be a whole number, digits only (got "9x")`},
		{"an empty number", []string{"QUEUEGATE_JOIN_LIMIT_PER_MINUTE="},
			`QUEUEGATE_JOIN_LIMIT_PER_MINUTE: join_limit.per_minute: must be a whole number, digits only (got "")`},
		{"a float", []string{"QUEUEGATE_JOIN_LIMIT_PER_MINUTE=1.9"},
			`QUEUEGATE_JOIN_LIMIT_PER_MINUTE: join_limit.per_minute: must be a whole number, digits only (got "1.9")`},
		{"a bare duration", []string{"QUEUEGATE_REDIS_TIMEOUT=3"},
			`QUEUEGATE_REDIS_TIMEOUT: redis.timeout: needs a unit; write 3s, 3m or 3ms (got "3")`},
		{"yes for true", []string{"QUEUEGATE_READINESS_REQUIRE_REDIS=yes"},
			`QUEUEGATE_READINESS_REQUIRE_REDIS: readiness.require_redis: must be true or false (got "yes")`},
		{"a broken rule", []string{"QUEUEGATE_PREFIX=x"},
			`QUEUEGATE_PREFIX: prefix: must start with "/" (got "x")`},
		{"a bad item of a list", []string{"QUEUEGATE_TRUSTED_PROXIES=10.0.0.0/8,x"},
			`QUEUEGATE_TRUSTED_PROXIES: trusted_proxies[1]: must be a CIDR such as 10.0.0.0/8 or fd00::/8 (got "x")`},
		{"an empty item of a list", []string{"QUEUEGATE_TRUSTED_PROXIES=10.0.0.0/8,"},
			"QUEUEGATE_TRUSTED_PROXIES: trusted_proxies: has an empty item; write a,b,c"},
		{"text that is not UTF-8", []string{"QUEUEGATE_TOKEN_ISSUER=\xff"},
			"QUEUEGATE_TOKEN_ISSUER: token.issuer: must be UTF-8 text"},
		{"an empty secret", []string{"QUEUEGATE_TOKEN_SECRET="},
			"QUEUEGATE_TOKEN_SECRET: token.secret: is set but empty; give it a value or unset it"},
		{"an empty name of a file", []string{"QUEUEGATE_TOKEN_SECRET_FILE="},
			"QUEUEGATE_TOKEN_SECRET_FILE: token.secret: is set but empty; give it a value or unset it"},
		{"an empty file", []string{"QUEUEGATE_TOKEN_SECRET_FILE=" + empty},
			"QUEUEGATE_TOKEN_SECRET_FILE: token.secret: the file it names is empty"},
		{"a file that does not exist", []string{"QUEUEGATE_TOKEN_SECRET_FILE=/nowhere/hunter2"},
			"QUEUEGATE_TOKEN_SECRET_FILE: token.secret: the file it names cannot be read: no such file or directory"},
		{"a device", []string{"QUEUEGATE_TOKEN_SECRET_FILE=/dev/zero"},
			"QUEUEGATE_TOKEN_SECRET_FILE: token.secret: the file it names cannot be read: not a regular file"},
		{"value and file", []string{"QUEUEGATE_TOKEN_SECRET=" + goodSecret, "QUEUEGATE_TOKEN_SECRET_FILE=" + empty},
			"QUEUEGATE_TOKEN_SECRET_FILE: token.secret: is set together with QUEUEGATE_TOKEN_SECRET; unset one of them"},
		{"a short secret", []string{"QUEUEGATE_TOKEN_SECRET=hunter2"},
			"QUEUEGATE_TOKEN_SECRET: token.secret: must be at least 32 bytes, it has 7; make one with queuegate keygen"},
		{"an unreadable previous key", []string{"QUEUEGATE_TOKEN_PREVIOUS=/nowhere/hunter2"},
			"QUEUEGATE_TOKEN_PREVIOUS: token.previous[0]: names a file that cannot be read: no such file or directory (a secret that begins with \"/\" or \".\" must be given through a file)"},
		{"several at once", []string{"QUEUEGATE_PREFIX=x", "QUEUEGATE_LISTEN=y", "QUEUEGATE_A_B=1"},
			`QUEUEGATE_A_B: unknown variable; unset it
QUEUEGATE_LISTEN: listen: must be host:port such as :8080 or 127.0.0.1:9090 (got "y")
QUEUEGATE_PREFIX: prefix: must start with "/" (got "x")`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			c, _, err := config.Parse("q", []byte(minimal), tc.env)
			require.EqualError(t, err, tc.want)
			require.Nil(t, c)
			require.NotContains(t, err.Error(), hunter2)
		})
	}
}

func TestVariablesOfKubernetesServicesAreIgnored(t *testing.T) {
	t.Parallel()
	_, _, err := config.Parse("q", []byte(minimal), []string{
		"QUEUEGATE_REDIS_PORT=tcp://10.0.0.1:6379",
		"QUEUEGATE_REDIS_SERVICE_HOST=10.0.0.1",
		"QUEUEGATE_REDIS_SERVICE_PORT=6379",
		"QUEUEGATE_REDIS_SERVICE_PORT_REDIS=6379",
		"QUEUEGATE_REDIS_PORT_6379_TCP=tcp://10.0.0.1:6379",
		"QUEUEGATE_REDIS_PORT_6379_TCP_PROTO=tcp",
		"QUEUEGATE_SERVICE_HOST=10.0.0.2",
		"QUEUEGATE_SERVICE_PORT=80",
		"QUEUEGATE_PORT=tcp://10.0.0.2:80",
		"QUEUEGATE_PORT_80_TCP_ADDR=10.0.0.2",
	})
	require.NoError(t, err)
}

func TestTheEnvironmentOfTheProcessIsNotRead(t *testing.T) {
	t.Setenv("QUEUEGATE_LISTEN", ":1")
	c, _, err := config.Parse("q", []byte(minimal), nil)
	require.NoError(t, err)
	require.Equal(t, ":8080", c.Listen)
}

func TestNamesOfVariablesAreUniqueAndNoKeyIsCalledPort(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, name := range config.EnvNames() {
		require.False(t, seen[name.Name], name.Name)
		seen[name.Name] = true
		require.NotRegexp(t, `_PORT$|_PORT_|_SERVICE_HOST$`, name.Name, "a Service of Kubernetes would set it")
		require.Equal(t, name.File, name.Secret && strings.HasSuffix(name.Name, "_FILE"))
	}
	for _, key := range config.KeyPatterns() {
		require.NotRegexp(t, `(^|\.)port$`, key)
	}
	require.True(t, seen["QUEUEGATE_TRUSTED_PROXIES"])
	require.True(t, seen["QUEUEGATE_ADMIN_TOKEN_FILE"])
	require.False(t, seen["QUEUEGATE_LISTEN_FILE"])
}

func TestEveryVariableReachesItsKey(t *testing.T) {
	t.Parallel()
	for _, name := range config.EnvNames() {
		if name.File {
			continue
		}
		_, _, err := config.Parse("q", []byte(minimal), []string{name.Name + "=\xff,\xff"})
		require.Error(t, err, name.Name)
		require.Contains(t, "\n"+err.Error(), "\n"+name.Name+": "+name.Key)
	}
}
