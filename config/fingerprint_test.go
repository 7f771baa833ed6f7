package config_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/queuegate/queuegate/config"
)

func TestFingerprintGoesByTheContentOfEveryFileThatIsNamed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	write := func(name, text string) { require.NoError(t, os.WriteFile(at(name), []byte(text), 0o600)) }
	require.NoError(t, os.Mkdir(at("pages"), 0o700))
	file := at("queuegate.yaml")
	text := "token: {previous: [" + at("old.key") + "]}\nrooms:\n  - {name: shop, page: {logo: " + at("logo.svg") + ", template: " + at("pages") + "}}\n"
	environ := []string{"QUEUEGATE_TOKEN_SECRET_FILE=" + at("secret")}
	last := config.Fingerprint(file, environ)
	differs := func(what string) {
		t.Helper()
		now := config.Fingerprint(file, environ)
		require.NotEqual(t, last, now, what)
		require.Equal(t, now, config.Fingerprint(file, environ), what)
		last = now
	}
	write("queuegate.yaml", text)
	differs("the file is there")
	write("queuegate.yaml", "")
	differs("an empty file")
	write("queuegate.yaml", text)
	differs("the file is back")
	for _, name := range []string{"secret", "old.key", "logo.svg", "pages/queue.css"} {
		write(name, "one")
		differs(name + " is there")
		write(name, "two")
		differs(name + " says something else")
		require.NoError(t, os.Rename(at(name), at("elsewhere")))
		require.NoError(t, os.Symlink(at("elsewhere"), at(name)))
		require.Equal(t, last, config.Fingerprint(file, environ), "where it lies is not what it says")
		require.NoError(t, os.Remove(at(name)))
		differs(name + " is gone")
	}
	write("queuegate.yaml", text+"surprise: 1\n")
	differs("a file that is refused")
	write("secret", "three")
	differs("a secret beside a file that is refused")
}
