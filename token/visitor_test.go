package token_test

import (
	"bytes"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/queuegate/queuegate/token"
)

func TestVisitorsAreValidAndNeverTheSame(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for range 1000 {
		v := token.NewVisitor()
		require.True(t, token.ValidVisitor(v), v)
		require.False(t, seen[v])
		seen[v] = true
	}
}

func TestVisitorFromKeyFollowsEveryPart(t *testing.T) {
	t.Parallel()
	first := token.VisitorFromKey(secret, room, "idempotency", "0123456789abcdef")
	require.True(t, token.ValidVisitor(first), first)
	require.Equal(t, first, token.VisitorFromKey(secret, room, "idempotency", "0123456789abcdef"))
	for name, other := range map[string]string{
		"secret":                     token.VisitorFromKey(oldSecret, room, "idempotency", "0123456789abcdef"),
		"room":                       token.VisitorFromKey(secret, "drop", "idempotency", "0123456789abcdef"),
		"kind":                       token.VisitorFromKey(secret, room, "account", "0123456789abcdef"),
		"value":                      token.VisitorFromKey(secret, room, "idempotency", "0123456789abcdeg"),
		"where kind and value part":  token.VisitorFromKey(secret, room, "idempotency0", "123456789abcdef"),
		"where room and kind part":   token.VisitorFromKey(secret, room+"i", "dempotency", "0123456789abcdef"),
		"all parts in one":           token.VisitorFromKey(secret, "", "", room+"idempotency0123456789abcdef"),
		"a zero byte between a part": token.VisitorFromKey(secret, room, "idempotency\x00", "0123456789abcdef"),
	} {
		require.NotEqual(t, first, other, name)
	}
}

// The same key must give the same visitor on every gate and in every version, or a
// repeated join would take a second place.
func TestVisitorFromKeyStaysTheSame(t *testing.T) {
	t.Parallel()
	require.Equal(t, "NEDDKQFBIVVS2V44IYQ234AECB", token.VisitorFromKey(secret, room, "idempotency", "0123456789abcdef"))
}

func TestValidVisitor(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]bool{
		visitor:                        true,
		"234567" + visitor[6:]:         true,
		"":                             false,
		visitor[:25]:                   false,
		visitor + "A":                  false,
		strings.ToLower(visitor):       false,
		visitor[:25] + "0":             false,
		visitor[:25] + "1":             false,
		visitor[:25] + "8":             false,
		visitor[:25] + "=":             false,
		visitor[:25] + "\n":            false,
		visitor[:25] + ":":             false,
		visitor[:24] + "é":             false,
		strings.Repeat(" ", 26):        false,
		visitor[:12] + "}{" + "QUEUES": false,
	} {
		require.Equal(t, want, token.ValidVisitor(s), "%q", s)
	}
}

// The same person, key or draw at another installation is another one's.
func TestIdentitySecretFollowsSecretAndInstallation(t *testing.T) {
	t.Parallel()
	derived := token.DeriveIdentitySecret(secret, install)
	require.Len(t, derived, 32)
	require.Equal(t, derived, token.DeriveIdentitySecret(bytes.Clone(secret), install))
	require.Equal(t, "2ce2949bfb5e61178d29991e6ddbf482f9d318169a953391e897aede283574bf", hex.EncodeToString(derived))
	for name, other := range map[string][]byte{
		"secret":       token.DeriveIdentitySecret(oldSecret, install),
		"installation": token.DeriveIdentitySecret(secret, "queuegate/staging"),
		"no name":      token.DeriveIdentitySecret(secret, ""),
	} {
		require.NotEqual(t, derived, other, name)
		require.NotEqual(t, token.VisitorFromKey(derived, room, "header", "alice"), token.VisitorFromKey(other, room, "header", "alice"), name)
		require.NotEqual(t, token.DrawKey(derived, room), token.DrawKey(other, room), name)
	}
}

// All gates of an installation must draw the same lots, also during an upgrade.
func TestDrawKeyStaysTheSameAndFollowsSecretAndRoom(t *testing.T) {
	t.Parallel()
	key := token.DrawKey(secret, room)
	require.Equal(t, "f837ee6a0894c105d67858104d30e55e833b3cfca34cef51e515083622cfd93c", hex.EncodeToString(key))
	require.NotEqual(t, key, token.DrawKey(secret, room+"s"))
	require.NotEqual(t, key, token.DrawKey(oldSecret, room))
	require.Nil(t, token.DrawKey(secret[:31], room))
}
