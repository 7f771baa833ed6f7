package queuetest

import (
	"net"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// Test programs run side by side, and their ids need not be far apart: a server of one
// must not find its port taken by another's.
func TestNoTwoProcessesHaveTheSamePorts(t *testing.T) {
	one, err := takePart(7)
	require.NoError(t, err)
	defer func() { require.NoError(t, one.holder.Close()) }()
	other, err := takePart(7)
	require.NoError(t, err)
	defer func() { require.NoError(t, other.holder.Close()) }()
	require.GreaterOrEqual(t, max(one.first, other.first)-min(one.first, other.first), partOfPorts)
}

func TestAFreePortIsOfThePartOfThisProcess(t *testing.T) {
	own, err := ownPart()
	require.NoError(t, err)
	for range 2 * partOfPorts {
		port, err := strconv.Atoi(FreePort(t))
		require.NoError(t, err)
		require.Greater(t, port, own.first)
		require.Less(t, port, own.first+partOfPorts)
	}
	_, err = net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(own.first)))
	require.Error(t, err, "the part is held")
}
