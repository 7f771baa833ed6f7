package proxy_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/queuegate/queuegate/token"
)

type pass = token.Pass

func newVisitor() string { return token.NewVisitor() }

func ticketOf(visitor string, place int64) token.Ticket {
	return token.Ticket{Visitor: visitor, Place: place, Generation: 1, Epoch: 1, Ahead: 4}
}

// forged is a token that is right in all but the key.
func forged(t *testing.T) string {
	a, err := token.New(token.Options{Issuer: "test", Secret: []byte("another secret of 32 bytes or so")})
	require.NoError(t, err)
	now := time.Now()
	raw, err := a.Sign(token.Pass{
		Room: "sale", Admission: "adm1", Visitor: newVisitor(), Stage: token.Active, Place: 1, Generation: 1, Epoch: 1,
		End: now.Add(time.Hour).UnixMilli(), IssuedAt: now, Expires: now.Add(time.Hour),
	})
	require.NoError(t, err)
	return raw
}
