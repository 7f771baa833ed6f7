package config_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/queuegate/queuegate/config"
)

func TestSecretsShowThemselvesOnlyThroughReveal(t *testing.T) {
	t.Parallel()
	c := config.Default()
	c.Token.Secret = hunter2
	c.Token.Previous = []config.Secret{hunter2}
	c.Admin.Token = hunter2
	c.Redis.URL = "redis://hunter2:hunter2@localhost"

	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%t", "%f", "%c", "%U", "%10s", "%!"} {
		for _, value := range []any{c.Token.Secret, &c.Token.Secret, c, &c, c.Token.Previous} {
			text := fmt.Sprintf(verb, value)
			require.NotContains(t, text, hunter2, verb)
			require.NotContains(t, text, fmt.Sprintf("%x", hunter2), verb)
		}
	}
	asJSON, err := json.Marshal(c)
	require.NoError(t, err)
	require.NotContains(t, string(asJSON), hunter2)
	asYAML, err := yaml.Marshal(c)
	require.NoError(t, err)
	require.NotContains(t, string(asYAML), hunter2)

	var logged bytes.Buffer
	for _, h := range []slog.Handler{slog.NewJSONHandler(&logged, nil), slog.NewTextHandler(&logged, nil)} {
		slog.New(h).Info("x", "secret", c.Token.Secret, "config", c, "list", c.Token.Previous)
	}
	require.NotContains(t, logged.String(), hunter2)

	require.Equal(t, hunter2, c.Token.Secret.Reveal())
	require.Equal(t, "(set)", c.Token.Secret.String())
	require.Empty(t, config.Secret("").String())
	require.Equal(t, `config.Secret("(set)")`, fmt.Sprintf("%#v", c.Token.Secret))
	require.Equal(t, `"(set)"`, fmt.Sprintf("%q", c.Token.Secret))
}

func TestRedactedYAMLMasksSecretsAndShowsTheRest(t *testing.T) {
	t.Parallel()
	c, _, err := config.Load("testdata/good/production.yaml", nil)
	require.NoError(t, err)
	got, err := c.YAML(true)
	require.NoError(t, err)
	golden(t, "testdata/redacted.golden", string(got))
	for _, secret := range []config.Secret{c.Token.Secret, c.Token.IdentitySecret, c.Token.Previous[0], c.Admin.Token, "p%40ss", "gate:"} {
		require.NotContains(t, string(got), secret.Reveal())
	}
}

func TestRedisAddressShowsNoPassword(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		url  config.Secret
		want string
	}{
		{"", ""},
		{"redis://u:hunter2@localhost:6379/1", "redis://localhost:6379/1"},
		{"redis://:hunter2%zz@localhost", "(set)"},
	} {
		require.Equal(t, tc.want, config.Redis{URL: tc.url}.Address())
	}
}
