package config

import (
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// Print tells two states of a configuration's files apart.
type Print [sha256.Size]byte

// Fingerprint is the print of the file at path and of every file it names as they
// are now: secrets and keys, logos, the folders of templates and locales. It goes by
// content alone, so that it does not matter how a file is replaced; a file that
// cannot be read is a content of its own. Certificates are not among them: those of
// the listener are followed by themselves, those for Redis read for each connection.
func Fingerprint(path string, environ []string) Print {
	sum := sha256.New()
	data, err := readRegular(path)
	one(sum, path, data, err)
	c, l := read(path, data, environ)
	for _, file := range l.files {
		data, err := readRegular(file)
		one(sum, file, data, err)
	}
	for _, room := range c.Rooms {
		if logo := room.Page.Logo; logo != "" && !strings.HasPrefix(logo, "shop:") {
			data, err := readRegular(logo)
			one(sum, logo, data, err)
		}
		for _, dir := range []string{room.Page.Template, room.Page.Locales} {
			folder(sum, dir)
		}
	}
	return Print(sum.Sum(nil))
}

// one adds a file. Lengths keep what ends one from beginning the next.
func one(sum io.Writer, name string, data []byte, err error) {
	_, _ = fmt.Fprintf(sum, "%q %d %v\n", name, len(data), err)
	_, _ = sum.Write(data)
}

// folder adds the files of a folder.
func folder(sum io.Writer, dir string) {
	if dir == "" {
		return
	}
	entries, err := os.ReadDir(dir)
	one(sum, dir, nil, err)
	for _, entry := range entries {
		file := filepath.Join(dir, entry.Name())
		if data, err := readRegular(file); err == nil {
			one(sum, file, data, nil)
		}
	}
}
