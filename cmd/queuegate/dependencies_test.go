package main_test

import (
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestNoDependencyIsOlderThanTheFaultsWeKnowOf holds go.mod against the versions in
// which faults were mended that would have been ours as well. govulncheck looks for
// all others; this needs no network.
func TestNoDependencyIsOlderThanTheFaultsWeKnowOf(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("../../go.mod")
	require.NoError(t, err)
	require.NotRegexp(t, `(?m)^\s*(replace|exclude)\b`, string(raw), "a version that is not the one required")
	for module, why := range map[string][2]string{
		"go":                                  {"1.26.0", "GO-2023-2102, GO-2024-2687, GO-2024-2963, GO-2025-3563 and the templates' escaping: all in the standard library"},
		"github.com/golang-jwt/jwt/v5":        {"5.2.2", "GO-2025-3553: a header of dots takes any amount of memory"},
		"github.com/redis/go-redis/v9":        {"9.22.0", "CVE-2025-29923: answers to other calls after a timeout at the connection's start; 9.22: where a Cluster's masters are"},
		"github.com/go-viper/mapstructure/v2": {"2.4.0", "GO-2025-3787, GO-2025-3900: errors that print the secret"},
		"golang.org/x/net":                    {"0.23.0", "GO-2023-2102, GO-2024-2687: streams that are reset, and headers without end"},
		"github.com/prometheus/client_golang": {"1.11.1", "GO-2022-0322: any method is a label"},
		"google.golang.org/protobuf":          {"1.33.0", "GO-2024-2611: JSON that is read for ever"},
		"go.yaml.in/yaml/v3":                  {"3.0.1", "GO-2022-0603: a document that panics"},
	} {
		m := regexp.MustCompile(`(?m)^(?:\t|require )?` + regexp.QuoteMeta(module) + ` v?([0-9.]+)`).FindStringSubmatch(string(raw))
		require.NotNil(t, m, "%s is not in go.mod", module)
		require.GreaterOrEqual(t, slices.Compare(numbers(t, m[1]), numbers(t, why[0])), 0, "%s %s: %s", module, m[1], why[1])
	}
}

func numbers(t *testing.T, version string) []int {
	t.Helper()
	var list []int
	for part := range strings.SplitSeq(version, ".") {
		n, err := strconv.Atoi(part)
		require.NoError(t, err)
		list = append(list, n)
	}
	return list
}
