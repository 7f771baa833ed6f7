package main_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// breakFiles applies patches, all together: each is the name of a file of
// queue/testdata/mutants, or the text of one with names below the module's root: for
// each change a file's name, <<<<<<<, the old text, =======, the new text, >>>>>>>. It
// returns the changed files by path.
func breakFiles(t *testing.T, root string, patches ...string) map[string]string {
	t.Helper()
	changed := map[string]string{}
	for _, patch := range patches {
		dir := root
		if strings.HasSuffix(patch, ".txt") {
			dir = filepath.Join(root, "queue")
			text, err := os.ReadFile(filepath.Join(dir, "testdata", "mutants", patch))
			require.NoError(t, err)
			patch = string(text)
		}
		breakFile(t, changed, dir, patch)
	}
	require.NotEmpty(t, changed, "the fault changes nothing")
	return changed
}

// breakFile applies one patch to files below dir.
func breakFile(t *testing.T, changed map[string]string, dir, patch string) {
	t.Helper()
	for _, part := range strings.Split(patch, ">>>>>>>\n") {
		head, body, found := strings.Cut(part, "\n<<<<<<<\n")
		if !found {
			continue
		}
		lines := strings.Split(strings.TrimSpace(head), "\n")
		name := filepath.Join(dir, lines[len(lines)-1])
		before, after, found := strings.Cut(body, "=======\n")
		require.True(t, found, "no ======= in the change of %s", name)
		if _, known := changed[name]; !known {
			source, err := os.ReadFile(name)
			require.NoError(t, err)
			changed[name] = string(source)
		}
		require.Equal(t, 1, strings.Count(changed[name], before), "the fault does not fit %s any more: %s", name, before)
		changed[name] = strings.Replace(changed[name], before, after, 1)
	}
}

// overlayOf writes the file for the -overlay flag.
func overlayOf(t *testing.T, changed map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	replace := map[string]string{}
	for name, text := range changed {
		twin := filepath.Join(dir, filepath.Base(name))
		require.NoError(t, os.WriteFile(twin, []byte(text), 0o600))
		replace[name] = twin
	}
	raw, err := json.Marshal(map[string]any{"Replace": replace})
	require.NoError(t, err)
	list := filepath.Join(dir, "overlay.json")
	require.NoError(t, os.WriteFile(list, raw, 0o600))
	return list
}

// brokenBinary builds the program with patches applied.
func brokenBinary(t *testing.T, patches ...string) string {
	t.Helper()
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	name := filepath.Join(t.TempDir(), "queuegate")
	list := overlayOf(t, breakFiles(t, root, patches...))
	cmd := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-overlay", list, "-o", name, ".")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	return name
}
