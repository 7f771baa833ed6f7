package main_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// instruction is one line of a Dockerfile with its continuation lines joined.
type instruction struct {
	name string // upper case
	args string
}

// stage is what stands between one FROM and the next.
type stage struct {
	base, name   string
	instructions []instruction
}

// all returns the arguments of every instruction of that name, in order.
func (s stage) all(name string) []string {
	var args []string
	for _, in := range s.instructions {
		if in.name == name {
			args = append(args, in.args)
		}
	}
	return args
}

// last returns the arguments of the last instruction of that name, which is the one that holds.
func (s stage) last(name string) string {
	args := s.all(name)
	if len(args) == 0 {
		return ""
	}
	return args[len(args)-1]
}

// parseDockerfile reads as much of the format as our own file uses: comments, continuation lines and stages.
func parseDockerfile(text string) []stage {
	var stages []stage
	var lines []string
	for line := range strings.Lines(text) {
		if trimmed := strings.TrimSpace(line); trimmed != "" && !strings.HasPrefix(trimmed, "#") {
			lines = append(lines, trimmed)
		}
	}
	joined := strings.ReplaceAll(strings.Join(lines, "\n"), "\\\n", " ")
	for line := range strings.Lines(joined) {
		name, args, _ := strings.Cut(strings.TrimSpace(line), " ")
		in := instruction{name: strings.ToUpper(name), args: strings.TrimSpace(args)}
		if in.name == "FROM" {
			words := slices.DeleteFunc(strings.Fields(in.args), func(w string) bool { return strings.HasPrefix(w, "--") })
			s := stage{base: words[0]}
			if len(words) == 3 {
				s.name = words[2]
			}
			stages = append(stages, s)
		} else if len(stages) > 0 {
			last := &stages[len(stages)-1]
			last.instructions = append(last.instructions, in)
		}
	}
	return stages
}

// execForm reads the JSON form of a command, nil for the shell form, which scratch has no shell for.
func execForm(args string) []string {
	var words []string
	if json.Unmarshal([]byte(args), &words) != nil {
		return nil
	}
	return words
}

var (
	numericUser = regexp.MustCompile(`^[1-9][0-9]*:[1-9][0-9]*$`)
	healthcheck = regexp.MustCompile(`^(?:--\S+ +)*CMD +(\[.*\])$`)
)

// imageProblems returns one line for each promise about the image that the Dockerfile does not keep.
func imageProblems(text, goVersion string) []string {
	var problems []string
	check := func(ok bool, format string, args ...any) {
		if !ok {
			problems = append(problems, fmt.Sprintf(format, args...))
		}
	}
	stages := parseDockerfile(text)
	if len(stages) != 2 {
		return []string{fmt.Sprintf("want a build stage and a final one, got %d stages", len(stages))}
	}
	build, final := stages[0], stages[1]

	check(build.name == "build", "the first stage is not named build")
	check(build.base == "golang:"+goVersion, "the build stage uses %s, go.mod asks for Go %s", build.base, goVersion)
	check(strings.Contains(text, "FROM --platform=$BUILDPLATFORM "), "the compiler would run emulated")
	compile := slices.DeleteFunc(build.all("RUN"), func(run string) bool { return !strings.Contains(run, "go build") })
	if len(compile) == 1 {
		for _, part := range []string{"CGO_ENABLED=0 ", `GOOS="$TARGETOS"`, `GOARCH="$TARGETARCH"`, "-trimpath", "-X main.version=$VERSION"} {
			check(strings.Contains(compile[0], part), "go build runs without %s", part)
		}
	} else {
		check(false, "want one go build in the build stage, got %d", len(compile))
	}

	check(final.base == "scratch", "the final stage is %s, not scratch", final.base)
	check(len(final.all("RUN")) == 0, "the final stage runs something, scratch has no shell")
	check(numericUser.MatchString(final.last("USER")), "the user %q is root or not a number", final.last("USER"))
	check(slices.ContainsFunc(final.all("COPY"), func(c string) bool {
		return strings.HasPrefix(c, "--from=build ") && strings.HasSuffix(c, "/etc/ssl/certs/ca-certificates.crt")
	}), "the CA roots are not copied")
	for _, c := range final.all("COPY") {
		check(strings.HasPrefix(c, "--from=build ") || c == "LICENSE /LICENSE", "COPY %s: only what was built goes into the image", c)
	}
	check(len(final.all("ADD")) == 0, "ADD may fetch from anywhere")

	entrypoint := execForm(final.last("ENTRYPOINT"))
	check(slices.Equal(entrypoint, []string{"/queuegate"}), "the entry point is not the binary in exec form")
	check(slices.Equal(execForm(final.last("CMD")), []string{"serve", "-c", "/etc/queuegate/queuegate.yaml"}),
		"the default command is not serve with the file in /etc")
	probe := healthcheck.FindStringSubmatch(final.last("HEALTHCHECK"))
	check(probe != nil && slices.Equal(execForm(probe[1]), []string{"/queuegate", "healthcheck", "-c", "/etc/queuegate/queuegate.yaml"}),
		"the health check is not the binary in exec form")
	check(final.last("EXPOSE") == "8080 9090", "the ports are not 8080 and 9090")
	for _, label := range []string{"title", "description", "source", "licenses", "version"} {
		check(strings.Contains(final.last("LABEL"), "org.opencontainers.image."+label+"="), "the label %s is missing", label)
	}
	return problems
}

// goLine is the major and minor version of the go line in go.mod.
func goLine(t *testing.T, root string) string {
	t.Helper()
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	require.NoError(t, err)
	match := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindSubmatch(mod)
	require.NotNil(t, match)
	return string(match[1])
}

func TestTheImageIsOneStaticBinaryWithoutRoot(t *testing.T) {
	root := repositoryRoot(t)
	text, err := os.ReadFile(filepath.Join(root, "Dockerfile"))
	require.NoError(t, err)
	require.Empty(t, imageProblems(string(text), goLine(t, root)))
}

func TestImageRulesCatchEachViolation(t *testing.T) {
	root := repositoryRoot(t)
	content, err := os.ReadFile(filepath.Join(root, "Dockerfile"))
	require.NoError(t, err)
	tests := []struct{ name, old, new, want string }{
		{"another base", "FROM scratch", "FROM alpine:3.22", "not scratch"},
		{"root by number", "USER 65532:65532", "USER 0:0", "is root"},
		{"root by name", "USER 65532:65532", "USER root", "is root"},
		{"a later USER wins", "EXPOSE", "USER 0\nEXPOSE", "is root"},
		{"no user", "USER 65532:65532\n", "", "is root"},
		{"a health check that needs a shell", `CMD ["/queuegate", "healthcheck", "-c", "/etc/queuegate/queuegate.yaml"]`, "CMD /queuegate healthcheck", "health check"},
		{"a health check that needs curl", `CMD ["/queuegate", "healthcheck", "-c", "/etc/queuegate/queuegate.yaml"]`, `CMD ["curl", "-f", "http://127.0.0.1:9090/healthz"]`, "health check"},
		{"an entry point that needs a shell", `ENTRYPOINT ["/queuegate"]`, "ENTRYPOINT /queuegate", "entry point"},
		{"a binary linked to the C library", "CGO_ENABLED=0 ", "", "CGO_ENABLED=0"},
		{"paths of the build machine in the binary", "-trimpath ", "", "-trimpath"},
		{"an old compiler", "golang:1.26", "golang:1.25", "go.mod asks for"},
		{"no CA roots", "COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt\n", "", "CA roots"},
		{"sources in the image", "COPY LICENSE /LICENSE", "COPY . /src", "only what was built"},
		{"another port", "EXPOSE 8080 9090", "EXPOSE 80", "ports"},
		{"emulated compilation", "--platform=$BUILDPLATFORM ", "", "emulated"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			broken := strings.Replace(string(content), tt.old, tt.new, 1)
			require.NotEqual(t, string(content), broken, "the text to replace is not in the Dockerfile")
			require.Contains(t, strings.Join(imageProblems(broken, goLine(t, root)), "\n"), tt.want)
		})
	}
}

func TestTheBuildContextHoldsAllThatTheBinaryIsBuiltFrom(t *testing.T) {
	root := repositoryRoot(t)
	content, err := os.ReadFile(filepath.Join(root, ".dockerignore"))
	require.NoError(t, err)
	lines := strings.Split(string(content), "\n")
	require.Contains(t, lines, "*", "what is not named must not go to the engine")
	for _, needed := range append([]string{"go.mod", "go.sum", "LICENSE"}, mayImport["cmd"]...) {
		require.Contains(t, lines, "!"+needed)
	}
	require.Contains(t, lines, "!cmd")
}
