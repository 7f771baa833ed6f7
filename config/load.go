package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// maxFile bounds the configuration file and every secret file.
const maxFile = 1 << 20

// Load reads the configuration file at path and lays environ, in the form of
// os.Environ, over it. The error is a *Problems with everything that is wrong;
// the configuration is then nil. Warnings come with and without an error.
func Load(path string, environ []string) (*Config, []Problem, error) {
	if path == "" {
		return nil, nil, &Problems{List: []Problem{{
			Message: "no configuration file is named; rooms can only come from a file (queuegate serve -c queuegate.yaml)",
		}}}
	}
	data, err := readRegular(path)
	if err != nil {
		return nil, nil, &Problems{List: []Problem{{
			File:    path,
			Message: "cannot be read: " + reason(err),
			Err:     err,
		}}}
	}
	return Parse(path, data, environ)
}

// Parse is Load for a file already read; name stands for it in problems.
func Parse(name string, data []byte, environ []string) (*Config, []Problem, error) {
	c, l := read(name, data, environ)
	var warnings []Problem
	if !l.broken {
		k := check(&c, l.unreadable)
		l.problems = append(l.problems, l.locate(k.problems)...)
		warnings = l.locate(k.warnings)
	}
	sortProblems(warnings)
	if len(l.problems) > 0 {
		sortProblems(l.problems)
		return nil, warnings, &Problems{List: l.problems}
	}
	return &c, warnings, nil
}

// read lays the layers over each other.
func read(name string, data []byte, environ []string) (Config, *loader) {
	c := Default()
	l := &loader{file: name, lines: map[string]int{}, env: map[string]string{}, bad: map[string]bool{}}
	l.decode(data, &c)
	l.overlay(environ, &c)
	l.readKeyFiles(&c)
	return c, l
}

// loader gathers what is wrong while the layers of one configuration are read.
type loader struct {
	file string
	// lines is the line in file of each key path that stands in it.
	lines map[string]int
	// env is the variable each key came from that came from one.
	env map[string]string
	// bad are the keys whose value could not be read. Rules on them are not
	// judged: their value is not what the operator wrote.
	bad      map[string]bool
	problems []Problem
	// files are those that hold secrets and keys.
	files []string
	// broken means nothing of the file can be judged.
	broken bool
}

// at reports a problem with key at a line of the file.
func (l *loader) at(key string, line int, message string) {
	l.problems = append(l.problems, Problem{File: l.file, Line: line, Key: key, Message: message})
}

// wrong reports a key whose value in the file cannot be read.
func (l *loader) wrong(key, message string) {
	l.bad[key] = true
	l.at(key, l.lines[key], message)
}

// whole reports a problem that leaves nothing to judge.
func (l *loader) whole(message string) {
	l.at("", 0, message)
	l.broken = true
}

// unreadable reports whether key, or anything in it or around it, could not be
// read.
func (l *loader) unreadable(key string) bool {
	for bad := range l.bad {
		if within(key, bad) || within(bad, key) {
			return true
		}
	}
	return false
}

// locate fills in where the values of problems found by validation came from.
// A key that stands nowhere gets the line of the section around it.
func (l *loader) locate(list []Problem) []Problem {
	for i := range list {
		p := &list[i]
		for key := p.Key; key != "" && p.Env == ""; key = parent(key) {
			p.Env = l.env[key]
		}
		if p.Env != "" {
			continue
		}
		p.File = l.file
		for key := p.Key; key != "" && p.Line == 0; key = parent(key) {
			p.Line = l.lines[key]
		}
	}
	return list
}

// errNotRegular is returned for a path that is no regular file: reading a
// pipe or a device could block for ever.
var errNotRegular = errors.New("config: not a regular file")

// errTooLarge is returned for a file above maxFile.
var errTooLarge = fmt.Errorf("config: larger than %d bytes", maxFile)

// readRegular reads a regular file of at most maxFile bytes.
func readRegular(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errNotRegular
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxFile {
		return nil, errTooLarge
	}
	return data, nil
}

// reason is why a file could not be read, without its path: a secret may stand
// where the path was expected.
func reason(err error) string {
	var pathError *fs.PathError
	switch {
	case errors.Is(err, errNotRegular):
		return "not a regular file"
	case errors.Is(err, errTooLarge):
		return fmt.Sprintf("larger than %d bytes", maxFile)
	case errors.As(err, &pathError):
		return pathError.Err.Error()
	default:
		return err.Error()
	}
}
