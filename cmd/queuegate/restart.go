package main

import (
	"cmp"
	"reflect"
	"slices"

	"github.com/queuegate/queuegate/config"
)

// needRestart names the keys that differ and that a running process cannot change:
// sockets that are bound, the Redis that holds the line, and what every ticket, pass
// and open page was made with.
func needRestart(before, now *config.Config) []string {
	var keys []string
	fixed := []struct {
		key  string
		from func(c *config.Config) any
	}{
		{"listen", func(c *config.Config) any { return c.Listen }},
		{"tls", func(c *config.Config) any { return c.TLS }},
		{"h2c", func(c *config.Config) any { return c.H2C }},
		{"prefix", func(c *config.Config) any { return c.Prefix }}, // open pages ask there
		{"redis", func(c *config.Config) any { return c.Redis }},
		{"token.issuer", func(c *config.Config) any { return c.Token.Issuer }},
		{"token.identity_secret", func(c *config.Config) any { return cmp.Or(c.Token.IdentitySecret, c.Token.Secret) }},
		{"admin.listen", func(c *config.Config) any { return c.Admin.Listen }},
		{"log", func(c *config.Config) any { return c.Log }},
		{"shutdown", func(c *config.Config) any { return c.Shutdown }},
	}
	for _, f := range fixed {
		if !reflect.DeepEqual(f.from(before), f.from(now)) {
			keys = append(keys, f.key)
		}
	}
	for _, s := range []struct {
		key         string
		before, now config.Secret
	}{
		{"token.secret", before.Token.Secret, now.Token.Secret},
		{"token.private_key", before.Token.PrivateKey, now.Token.PrivateKey},
	} {
		// Passes are still out that it has signed.
		if s.before != s.now && s.before != "" && !slices.Contains(now.Token.Previous, s.before) {
			keys = append(keys, s.key)
		}
	}
	return keys
}
