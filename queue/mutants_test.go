package queue_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// mutate applies one file of testdata/mutants: lines of comment, then for each
// change a file's name, <<<<<<<, the old text, =======, the new text, >>>>>>>.
// It returns the changed files by name.
func mutate(t *testing.T, patch string) map[string]string {
	t.Helper()
	text, err := os.ReadFile(patch)
	require.NoError(t, err)
	changed := map[string]string{}
	for _, part := range strings.Split(string(text), ">>>>>>>\n") {
		head, body, found := strings.Cut(part, "\n<<<<<<<\n")
		if !found {
			require.Empty(t, strings.TrimSpace(part), "%s: text after the last change", patch)
			continue
		}
		lines := strings.Split(strings.TrimSpace(head), "\n")
		name := lines[len(lines)-1]
		before, after, found := strings.Cut(body, "=======\n")
		require.True(t, found, "%s: no ======= in the change of %s", patch, name)
		source, known := changed[name]
		if !known {
			file, err := os.ReadFile(name)
			require.NoError(t, err)
			source = string(file)
		}
		require.Equal(t, 1, strings.Count(source, before),
			"%s does not fit %s any more: bring the old text in it up to date. It is:\n%s", patch, name, before)
		changed[name] = strings.Replace(source, before, after, 1)
	}
	require.NotEmpty(t, changed, "%s changes nothing", patch)
	return changed
}

// needed are the files that the tests which judge a mutant are made of.
var needed = []string{
	"export_test.go", "line_test.go", "loss_test.go", "model_test.go", "property_test.go", "rate_test.go",
}

// injector is a file that only the overlay knows. With it one test binary runs
// every mutant of the Lua: building one for each would take minutes.
const injector = `package queue

import "os"

func init() {
	for name, script := range map[string]*string{
		"room": &roomLua, "people": &peopleLua, "slots": &slotsLua, "answers": &answersLua, "join": &joinLua,
		"touch": &touchLua, "claim": &claimLua, "renew": &renewLua, "finish": &finishLua, "tick": &tickLua,
		"heal": &healLua, "configure": &configureLua, "admit": &admitLua, "reset": &resetLua,
	} {
		if text, err := os.ReadFile(os.Getenv("MUTANT") + "/lua/" + name + ".lua"); err == nil {
			*script = string(text)
		}
	}
}
`

// write puts files into a new folder, and returns it.
func write(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "lua"), 0o700))
	for name, text := range files {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	return dir
}

// build makes a binary of the tests that judge a mutant, with some files of this
// package replaced or added, by go's -overlay.
func build(t *testing.T, files map[string]string) string {
	t.Helper()
	here, err := os.Getwd()
	require.NoError(t, err)
	dir := write(t, files)
	replace := map[string]string{}
	for name := range files {
		replace[filepath.Join(here, name)] = filepath.Join(dir, name)
	}
	// The other tests are left out: building them takes most of the time.
	tests, err := filepath.Glob("*_test.go")
	require.NoError(t, err)
	for _, test := range tests {
		if !slices.Contains(needed, test) {
			replace[filepath.Join(here, test)] = ""
		}
	}
	raw, err := json.Marshal(map[string]any{"Replace": replace})
	require.NoError(t, err)
	list, binary := filepath.Join(dir, "overlay.json"), filepath.Join(dir, "mutant")
	require.NoError(t, os.WriteFile(list, raw, 0o600))
	output, err := exec.CommandContext(t.Context(), "go", "test", "-c", "-o", binary, "-vet=off", "-overlay", list,
		"-gcflags=-N -l", "-ldflags=-s -w", ".").CombinedOutput()
	require.NoError(t, err, string(output))
	return binary
}

// judge runs the tests that judge a mutant.
func judge(t *testing.T, binary, files string, checks int) (output string, err error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), binary,
		"-test.run", "^(TestTheLineBehavesAsTheModel|TestSlotsTakenBeforeALossStayReserved)$/^embedded$",
		fmt.Sprintf("-rapid.checks=%d", checks), "-rapid.nofailfile", "-rapid.shrinktime=0s")
	cmd.Env = append(os.Environ(), "MUTANT="+files)
	raw, err := cmd.CombinedOutput()
	return string(raw), err
}

// TestEveryMutantIsSeen breaks the line on purpose, one way at a time, and wants
// the comparison with the model, or the test of what is reserved after a loss, to
// go red each time.
func TestEveryMutantIsSeen(t *testing.T) {
	patches, err := filepath.Glob("testdata/mutants/*.txt")
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(patches), 30)
	injected := build(t, map[string]string{"injector_test.go": injector})
	output, err := judge(t, injected, t.TempDir(), 50)
	require.NoError(t, err, "not broken at all, and red: %s", output)
	for _, patch := range patches {
		t.Run(strings.TrimSuffix(filepath.Base(patch), ".txt"), func(t *testing.T) {
			t.Parallel()
			changed := mutate(t, patch)
			binary := injected
			for name := range changed {
				if filepath.Ext(name) == ".go" {
					binary = build(t, changed)
					break
				}
			}
			output, err := judge(t, binary, write(t, changed), 1500)
			require.Error(t, err, "the mutant was not seen")
			require.Contains(t, output, "/embedded", output)
			require.Contains(t, output, "--- FAIL: ", output)
			require.NotContains(t, output, "queue: Redis is not available", "the mutant does not run")
		})
	}
}
