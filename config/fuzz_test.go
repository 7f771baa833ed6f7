package config_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/queuegate/queuegate/config"
)

// FuzzLoad: whatever the file and the environment hold, the loader does not
// panic, hands out either a configuration or problems, one a line, and what it
// hands out reads back as the same.
func FuzzLoad(f *testing.F) {
	files, _ := filepath.Glob("testdata/*/*.yaml")
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(data), "QUEUEGATE_LISTEN=:1")
	}
	f.Add(string(config.Example), "QUEUEGATE_TRUSTED_PROXIES=a,b")
	f.Fuzz(func(t *testing.T, file, env string) {
		c, _, err := config.Parse("f", []byte(file), strings.Split(env, "\n"))
		if err != nil {
			var problems *config.Problems
			if c != nil || !errors.As(err, &problems) || len(problems.List) == 0 {
				t.Fatalf("config %v with error %v", c, err)
			}
			if lines := strings.Count(err.Error(), "\n") + 1; lines != len(problems.List) {
				t.Fatalf("%d lines for %d problems: %q", lines, len(problems.List), err)
			}
			return
		}
		if _, err := c.Validate(); err != nil {
			t.Fatalf("handed out, but not valid: %v", err)
		}
		first, err := c.YAML(false)
		if err != nil {
			t.Fatal(err)
		}
		again, _, err := config.Parse("again", first, nil)
		if err != nil {
			t.Fatalf("does not read back: %v\n%s", err, first)
		}
		second, err := again.YAML(false)
		if err != nil || string(first) != string(second) {
			t.Fatalf("reads back as something else: %v\n%s\n%s", err, first, second)
		}
	})
}
