package main_test

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const modulePath = "github.com/queuegate/queuegate"

// mayImport says for each top-level directory which others of ours its packages may import, beside its own.
// Tests are held to it as well.
var mayImport = map[string][]string{
	"config":   nil,
	"token":    nil,
	"queue":    nil,
	"proxy":    {"queue", "token"},
	"cmd":      {"config", "token", "queue", "proxy"},
	"examples": {"queue", "token", "proxy"},
}

// fenced are the libraries that stay in one place. The rules hold for the product and not for the examples, which
// import what they show.
var fenced = []struct {
	paths   []string // a package's path, or its beginning up to a slash
	allowed func(f sourceFile) bool
	rule    string
}{
	{
		paths:   []string{"github.com/redis/go-redis"},
		allowed: func(f sourceFile) bool { return f.area() == "queue" || f.area() == "cmd" },
		rule:    "only queue and cmd speak to Redis",
	},
	{
		paths: []string{"github.com/alicebob/miniredis"},
		allowed: func(f sourceFile) bool {
			return f.isTest() || f.path == "cmd/queuegate/embedded.go" || path.Dir(f.path) == "queue/queuetest"
		},
		rule: "only cmd/queuegate/embedded.go and tests run the embedded Redis",
	},
	{
		paths:   []string{"go.opentelemetry.io"},
		allowed: func(f sourceFile) bool { return f.area() == "cmd" },
		rule:    "only cmd sends traces",
	},
	{
		paths:   []string{"github.com/golang-jwt/jwt"},
		allowed: func(f sourceFile) bool { return f.isTest() || f.area() == "token" },
		rule:    "only token reads and writes JWT",
	},
	{
		paths: []string{
			"github.com/spf13/viper", "go.yaml.in/yaml", "gopkg.in/yaml.v2", "gopkg.in/yaml.v3",
			"sigs.k8s.io/yaml", "github.com/goccy/go-yaml",
		},
		allowed: func(f sourceFile) bool { return f.isTest() || f.area() == "config" },
		rule:    "only config reads configuration files",
	},
	{
		paths: []string{"flag", "github.com/spf13/pflag", "github.com/spf13/cobra"},
		allowed: func(f sourceFile) bool {
			return f.isTest() || f.area() == "cmd" || f.area() == "config"
		},
		rule: "only cmd and config read flags",
	},
}

// environment are the functions that read the environment; only cmd, config, examples and tests may name them.
var environment = map[string][]string{
	"os":      {"Getenv", "LookupEnv", "Environ", "ExpandEnv"},
	"syscall": {"Getenv", "Environ"},
}

// sourceFile is one Go file of the module.
type sourceFile struct {
	path string // from the root of the repository, with slashes
	ast  *ast.File
}

// area is the top-level directory the file is in.
func (f sourceFile) area() string {
	area, _, _ := strings.Cut(f.path, "/")
	return area
}

func (f sourceFile) isTest() bool { return strings.HasSuffix(f.path, "_test.go") }

// imports are the paths the file imports.
func (f sourceFile) imports() []string {
	var paths []string
	for _, spec := range f.ast.Imports {
		if p, err := strconv.Unquote(spec.Path.Value); err == nil {
			paths = append(paths, p)
		}
	}
	return paths
}

// localName is the name under which the file knows an imported package, "" when it does not import it.
func (f sourceFile) localName(importPath string) string {
	for _, spec := range f.ast.Imports {
		if p, err := strconv.Unquote(spec.Path.Value); err != nil || p != importPath {
			continue
		}
		if spec.Name != nil {
			return spec.Name.Name
		}
		return path.Base(importPath)
	}
	return ""
}

// importProblems returns one line for each import, or reading of the environment, that the design forbids.
func importProblems(files []sourceFile) []string {
	var problems []string
	report := func(f sourceFile, what, rule string) {
		problems = append(problems, fmt.Sprintf("%s: %s: %s", f.path, what, rule))
	}
	for _, f := range files {
		for _, imported := range f.imports() {
			if ours, ok := strings.CutPrefix(imported, modulePath+"/"); ok {
				area, _, _ := strings.Cut(ours, "/")
				if area != f.area() && !slices.Contains(mayImport[f.area()], area) {
					report(f, "imports "+imported, "not in the direction of the design")
				}
			}
			if f.area() == "examples" {
				continue
			}
			for _, fence := range fenced {
				if within(imported, fence.paths) && !fence.allowed(f) {
					report(f, "imports "+imported, fence.rule)
				}
			}
		}
		for _, call := range environmentReads(f) {
			report(f, "reads the environment by "+call, "only cmd and config do")
		}
	}
	return problems
}

// within reports whether a package is one of the paths or below one of them.
func within(imported string, paths []string) bool {
	return slices.ContainsFunc(paths, func(p string) bool {
		return imported == p || strings.HasPrefix(imported, p+"/")
	})
}

// environmentReads lists where a file that must not read the environment does.
func environmentReads(f sourceFile) []string {
	if f.isTest() || f.area() == "cmd" || f.area() == "config" || f.area() == "examples" {
		return nil
	}
	var reads []string
	for _, pkg := range slices.Sorted(maps.Keys(environment)) {
		local := f.localName(pkg)
		if local == "." {
			// Its functions would then be bare names that nobody can tell apart.
			reads = append(reads, "a dot import of "+pkg)
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			selector, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			if name, ok := selector.X.(*ast.Ident); ok && local != "" && name.Name == local &&
				slices.Contains(environment[pkg], selector.Sel.Name) {
				reads = append(reads, pkg+"."+selector.Sel.Name)
			}
			return true
		})
	}
	return reads
}

// repositoryRoot is the directory that holds go.mod.
func repositoryRoot(t *testing.T) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "env", "GOMOD").Output()
	require.NoError(t, err)
	return filepath.Dir(strings.TrimSpace(string(out)))
}

// moduleFiles parses every Go file of the module, also those that this platform or these build tags leave out. It
// walks the directories itself, and not by `go list`, so that the test cache knows of each file and runs the test
// again when one is added.
func moduleFiles(t *testing.T, root string) []sourceFile {
	t.Helper()
	var files []sourceFile
	for _, area := range slices.Sorted(maps.Keys(mayImport)) {
		top := filepath.Join(root, area)
		err := filepath.WalkDir(top, func(name string, entry fs.DirEntry, err error) error {
			switch {
			case name == top && errors.Is(err, fs.ErrNotExist):
				return nil
			case err != nil:
				return err
			case entry.IsDir() && entry.Name() == "testdata":
				return fs.SkipDir
			case entry.IsDir() || path.Ext(name) != ".go":
				return nil
			}
			parsed, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			rel, err := filepath.Rel(root, name)
			files = append(files, sourceFile{path: filepath.ToSlash(rel), ast: parsed})
			return err
		})
		require.NoError(t, err)
	}
	return files
}

func TestPackagesImportOnlyInTheDirectionOfTheDesign(t *testing.T) {
	files := moduleFiles(t, repositoryRoot(t))
	require.NotEmpty(t, files)
	require.Empty(t, importProblems(files))
}

func TestImportRulesCatchEachViolation(t *testing.T) {
	const ours = modulePath + "/"
	tests := []struct {
		name string
		path string
		body string // after the package clause
		want string // part of the one problem; "" when the file is fine
	}{
		{"config may not import token", "config/load.go", `import _ "` + ours + `token"`, "direction"},
		{"token may not import queue", "token/issuer.go", `import _ "` + ours + `queue"`, "direction"},
		{"queue may not import proxy", "queue/queue.go", `import _ "` + ours + `proxy"`, "direction"},
		{"a test in queue may not import proxy either", "queue/queue_test.go", `import _ "` + ours + `proxy"`, "direction"},
		{"queue may import its own subpackages", "queue/x_test.go", `import _ "` + ours + `queue/queuetest"`, ""},
		{"proxy may import queue", "proxy/gate.go", `import _ "` + ours + `queue"`, ""},
		{"proxy may not import config", "proxy/gate.go", `import _ "` + ours + `config"`, "direction"},
		{"a subpackage of proxy may not import config", "proxy/route/m.go", `import _ "` + ours + `config"`, "direction"},
		{"proxy may not import cmd", "proxy/gate.go", `import _ "` + ours + `cmd/x"`, "direction"},
		{"an example may not import config", "examples/embed/main.go", `import _ "` + ours + `config"`, "direction"},
		{"the gate itself sends no traces", "proxy/trace.go", `import _ "go.opentelemetry.io/otel"`, "only cmd sends traces"},
		{"nothing is known of a new top-level directory", "web/a.go", `import _ "` + ours + `queue"`, "direction"},
		{"proxy may not import go-redis", "proxy/gate.go", `import _ "github.com/redis/go-redis/v9"`, "speak to Redis"},
		{"a test in proxy may not import go-redis", "proxy/a_test.go", `import _ "github.com/redis/go-redis/v9"`, "speak to Redis"},
		{"a subpackage of go-redis counts as go-redis", "token/a.go", `import _ "github.com/redis/go-redis/v9/logging"`, "speak to Redis"},
		{"config may not import go-redis", "config/a.go", `import _ "github.com/redis/go-redis/v9"`, "speak to Redis"},
		{"queue may import go-redis", "queue/a.go", `import _ "github.com/redis/go-redis/v9"`, ""},
		{"cmd may import go-redis", "cmd/queuegate/serve.go", `import _ "github.com/redis/go-redis/v9"`, ""},
		{"serve.go may not import miniredis", "cmd/queuegate/serve.go", `import _ "github.com/alicebob/miniredis/v2"`, "embedded Redis"},
		{"queue may not import miniredis", "queue/a.go", `import _ "github.com/alicebob/miniredis/v2"`, "embedded Redis"},
		{"embedded.go may import miniredis", "cmd/queuegate/embedded.go", `import _ "github.com/alicebob/miniredis/v2"`, ""},
		{"queuetest may import miniredis", "queue/queuetest/redis.go", `import _ "github.com/alicebob/miniredis/v2"`, ""},
		{"proxy may not import jwt", "proxy/a.go", `import _ "github.com/golang-jwt/jwt/v5"`, "JWT"},
		{"cmd may not import viper", "cmd/queuegate/a.go", `import _ "github.com/spf13/viper"`, "configuration files"},
		{"cmd may not import yaml", "cmd/queuegate/a.go", `import _ "go.yaml.in/yaml/v3"`, "configuration files"},
		{"config may import viper", "config/a.go", `import _ "github.com/spf13/viper"`, ""},
		{"queue may not read flags", "queue/a.go", `import _ "flag"`, "read flags"},
		{"proxy may not read flags by pflag", "proxy/a.go", `import _ "github.com/spf13/pflag"`, "read flags"},
		{"proxy may not read the environment", "proxy/a.go", "import \"os\"\nvar x = os.Getenv(\"X\")", "os.Getenv"},
		{"nor under another name", "token/a.go", "import sys \"os\"\nvar x, y = sys.LookupEnv(\"X\")", "os.LookupEnv"},
		{"nor without calling it", "queue/a.go", "import \"os\"\nvar f = os.Environ", "os.Environ"},
		{"nor through a dot import", "queue/a.go", "import . \"os\"\nvar x = Getenv(\"X\")", "dot import"},
		{"nor by the system call", "queue/a.go", "import \"syscall\"\nvar x = syscall.Environ()", "syscall.Environ"},
		{"queue may open a file", "queue/a.go", "import \"os\"\nvar f, err = os.Open(\"x\")", ""},
		{"cmd may read the environment", "cmd/queuegate/a.go", "import \"os\"\nvar x = os.Getenv(\"X\")", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			parsed, err := parser.ParseFile(token.NewFileSet(), tt.path, "package p\n"+tt.body, parser.SkipObjectResolution)
			require.NoError(t, err)
			problems := importProblems([]sourceFile{{path: tt.path, ast: parsed}})
			if tt.want == "" {
				require.Empty(t, problems)
				return
			}
			require.Len(t, problems, 1)
			require.Contains(t, problems[0], tt.want)
			require.Contains(t, problems[0], tt.path)
		})
	}
}

// topLevel are the only names that the root of the repository holds beside dot-files.
var topLevel = []string{
	"cmd", "proxy", "queue", "token", "config", "examples",
	"Dockerfile", "Makefile", "go.mod", "go.sum", "README.md", "LICENSE",
}

// strangers returns the top-level names among the paths that do not belong there.
func strangers(paths []string) []string {
	found := map[string]bool{}
	for _, p := range paths {
		name, _, _ := strings.Cut(p, "/")
		if name != "" && !strings.HasPrefix(name, ".") && !slices.Contains(topLevel, name) {
			found[name] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}

func TestTheTopLevelOfTheRepositoryHoldsOnlyWhatBelongsThere(t *testing.T) {
	root := repositoryRoot(t)
	var paths []string
	if _, err := os.Stat(filepath.Join(root, ".git")); errors.Is(err, fs.ErrNotExist) {
		// A copy without history: what lies there, without what make builds.
		entries, err := os.ReadDir(root)
		require.NoError(t, err)
		for _, entry := range entries {
			if entry.Name() != "bin" && entry.Name() != "build" {
				paths = append(paths, entry.Name())
			}
		}
	} else {
		// The checkout may belong to another user than the one who runs the tests.
		cmd := exec.CommandContext(t.Context(), "git", "-c", "safe.directory=*", "ls-files", "-z")
		cmd.Dir = root
		out, err := cmd.Output()
		require.NoError(t, err)
		paths = strings.Split(string(out), "\x00")
	}
	require.Contains(t, paths, "go.mod")
	require.Empty(t, strangers(paths))
}

func TestStrangersAreNamedOnce(t *testing.T) {
	require.Equal(t, []string{"CHANGELOG.md", "docs"},
		strangers([]string{"docs/a.md", "docs/b.md", "CHANGELOG.md", ".ci/run", "cmd/queuegate/main.go", "README.md", ""}))
}
