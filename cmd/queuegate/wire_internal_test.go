package main

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/queuegate/queuegate/config"
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
		keys, err := newKeys(&c)
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
