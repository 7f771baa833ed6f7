package spa_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/queuegate/queuegate/proxy/spa"
)

func TestTheScriptIsShort(t *testing.T) {
	require.LessOrEqual(t, len(spa.Script), 3<<10, "it is sent as it is")
}

// A shop whose policy takes no markup from scripts can use it as well.
func TestTheScriptWritesNoMarkup(t *testing.T) {
	for _, word := range []string{"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "Function("} {
		require.NotContains(t, string(spa.Script), word)
	}
}
