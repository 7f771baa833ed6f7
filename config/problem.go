package config

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// Problem is one thing that is wrong, or for a warning worth knowing, with a
// configuration.
type Problem struct {
	// File is the configuration file; empty when there is none.
	File string
	// Line in File, 0 when the key does not stand in it.
	Line int
	// Env is the variable the value came from; File and Line are then unset.
	Env string
	// Key is the path of the key, as rooms[0].protect[0].paths[0]; empty when
	// the whole file is meant.
	Key string
	// Message says what is wrong and what to do. It never quotes a secret.
	Message string
	// Err is the cause, such as fs.ErrNotExist; nil for most problems.
	Err error
}

// String is "file:line: key: message", with the name of the variable in place
// of file and line for a value from the environment.
func (p Problem) String() string {
	var b strings.Builder
	switch {
	case p.Env != "":
		b.WriteString(p.Env + ": ")
	case p.File != "" && p.Line > 0:
		b.WriteString(p.File + ":" + strconv.Itoa(p.Line) + ": ")
	case p.File != "":
		b.WriteString(p.File + ": ")
	}
	if p.Key != "" {
		b.WriteString(p.Key + ": ")
	}
	b.WriteString(p.Message)
	return b.String()
}

// Problems is the error of Load, Parse and Validate: everything that is wrong,
// not the first thing only.
type Problems struct {
	// List is in the order of the file, then the environment; never empty.
	List []Problem
}

// Error is one problem a line.
func (p *Problems) Error() string {
	lines := make([]string, len(p.List))
	for i, problem := range p.List {
		lines[i] = problem.String()
	}
	return strings.Join(lines, "\n")
}

// Unwrap gives the causes, for errors.Is.
func (p *Problems) Unwrap() []error {
	var causes []error
	for _, problem := range p.List {
		if problem.Err != nil {
			causes = append(causes, problem.Err)
		}
	}
	return causes
}

// sortProblems puts problems in the order of the file: first those without a
// line, last those from the environment.
func sortProblems(list []Problem) {
	slices.SortStableFunc(list, func(a, b Problem) int {
		return cmp.Or(
			cmp.Compare(envRank(a), envRank(b)),
			cmp.Compare(a.Env, b.Env),
			cmp.Compare(a.Line, b.Line),
		)
	})
}

func envRank(p Problem) int {
	if p.Env != "" {
		return 1
	}
	return 0
}
