package config_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/queuegate/queuegate/config"
)

func TestKeysTypesAndDefaultsAreAsDeclared(t *testing.T) {
	t.Parallel()
	golden(t, "testdata/keys.golden", strings.Join(config.Keys(), "\n")+"\n")
}

func TestTheExampleHoldsTheDefaults(t *testing.T) {
	t.Parallel()
	got, _, err := config.Parse("queuegate.example.yaml", config.Example, nil)
	require.NoError(t, err)
	require.Len(t, got.Rooms, 1)

	want := config.Default()
	room := config.DefaultRoom()
	room.Name = got.Rooms[0].Name
	room.Protect = got.Rooms[0].Protect
	room.TotalActiveUsers = got.Rooms[0].TotalActiveUsers
	room.NewUsersPerMinute = got.Rooms[0].NewUsersPerMinute
	want.Rooms = []config.Room{room}
	require.Equal(t, yamlOf(t, &want), yamlOf(t, got))
}

func TestTheExampleHoldsEveryKeyExactlyOnce(t *testing.T) {
	t.Parallel()
	var doc yaml.Node
	require.NoError(t, yaml.Unmarshal(config.Example, &doc))
	count := map[string]int{}
	countKeys(doc.Content[0], "", count)

	want := map[string]int{}
	for _, key := range config.KeyPatterns() {
		// These two lists are empty by default. The keys of a rule stand once,
		// under protect.
		for _, empty := range []string{"rooms[].exempt", "rooms[].consume.routes"} {
			if strings.HasPrefix(key, empty+"[]") {
				key = empty
			}
		}
		want[key] = 1
	}
	require.Equal(t, want, count)
}

// countKeys counts the keys that hold a value below node.
func countKeys(node *yaml.Node, path string, count map[string]int) {
	switch {
	case node.Kind == yaml.MappingNode:
		for i := 0; i < len(node.Content); i += 2 {
			countKeys(node.Content[i+1], strings.TrimPrefix(path+"."+node.Content[i].Value, "."), count)
		}
	case node.Kind == yaml.SequenceNode && len(node.Content) > 0 && node.Content[0].Kind == yaml.MappingNode:
		for _, item := range node.Content {
			countKeys(item, path+"[]", count)
		}
	default:
		count[path]++
	}
}

func TestEveryFieldHasADocComment(t *testing.T) {
	t.Parallel()
	for _, file := range []string{"config.go", "room.go"} {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
		require.NoError(t, err)
		ast.Inspect(parsed, func(n ast.Node) bool {
			if f, ok := n.(*ast.Field); ok && f.Tag != nil {
				require.NotEmpty(t, f.Doc.Text(), "%s: %s", file, f.Names[0])
			}
			return true
		})
	}
}
