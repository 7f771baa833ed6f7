package check_test

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"github.com/stretchr/testify/require"
	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/kubectl-validate/pkg/openapiclient"
	"sigs.k8s.io/kubectl-validate/pkg/validator"
	"sigs.k8s.io/yaml"
)

// The version that examples/kubernetes/README.md names as well.
const kustomize = "sigs.k8s.io/kustomize/kustomize/v5@v5.8.2"

// schemas is the newest Kubernetes whose schemas kubectl-validate brings along. Nothing is asked of a network.
const schemas = "1.30"

// programs holds what the tests run: kustomize, and the gate as it is in this tree.
var programs = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "queuegate-check-")
	if err != nil {
		return "", err
	}
	for _, args := range [][]string{
		{"install", kustomize},
		{"build", "-C", "../..", "-buildvcs=false", "-o", filepath.Join(dir, "queuegate"), "./cmd/queuegate"},
	} {
		cmd := exec.Command("go", args...)
		cmd.Env = append(os.Environ(), "GOBIN="+dir)
		if out, err := cmd.CombinedOutput(); err != nil {
			return dir, errors.Join(err, errors.New(string(out)))
		}
	}
	return dir, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if dir, err := programs(); err == nil {
		_ = os.RemoveAll(dir)
	}
	os.Exit(code)
}

// program is the path of kustomize or queuegate.
func program(t testing.TB, name string) string {
	t.Helper()
	dir, err := programs()
	require.NoError(t, err)
	return filepath.Join(dir, name)
}

// variants are all that the README says can be built: each overlay, with one address of Redis and with Sentinels.
var variants = []struct {
	overlay   string
	sentinels bool
}{
	{"native-sidecar", false}, {"plain-sidecar", false}, {"standalone", false},
	{"native-sidecar", true}, {"plain-sidecar", true}, {"standalone", true},
}

// render builds an overlay as `kustomize build` does.
func render(t testing.TB, overlay string, sentinels bool) []byte {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS("../kubernetes")))
	file := filepath.Join(dir, "overlays", overlay, "kustomization.yaml")
	if sentinels {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		with := bytes.Replace(text, []byte("\n#components:"), []byte("\ncomponents:"), 1)
		require.NotEqual(t, string(text), string(with))
		require.NoError(t, os.WriteFile(file, with, 0o600))
	}
	var stderr bytes.Buffer
	cmd := exec.Command(program(t, "kustomize"), "build", filepath.Dir(file))
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, "%s", &stderr)
	require.Empty(t, stderr.String(), "kustomize warns")
	return out
}

// documents are the objects of a stream of YAML.
func documents(t testing.TB, text []byte) [][]byte {
	t.Helper()
	var list [][]byte
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		if len(bytes.TrimSpace(document)) > 0 {
			list = append(list, document)
		}
	}
	return list
}

// built is what an overlay makes, by kind.
type built struct {
	namespaces  []core.Namespace
	deployments []apps.Deployment
	services    []core.Service
	configs     []core.ConfigMap
	policies    []networking.NetworkPolicy
	budgets     []policy.PodDisruptionBudget
	monitors    []monitoring.ServiceMonitor
}

// add decodes one object strictly: a key that its kind does not have, or has twice, is an error.
func (b *built) add(document []byte) error {
	var kind meta.TypeMeta
	if err := yaml.Unmarshal(document, &kind); err != nil {
		return err
	}
	switch kind.Kind {
	case "Namespace":
		return decode(document, &b.namespaces)
	case "Deployment":
		return decode(document, &b.deployments)
	case "Service":
		return decode(document, &b.services)
	case "ConfigMap":
		return decode(document, &b.configs)
	case "NetworkPolicy":
		return decode(document, &b.policies)
	case "PodDisruptionBudget":
		return decode(document, &b.budgets)
	case "ServiceMonitor":
		return decode(document, &b.monitors)
	}
	return errors.New("no such kind is expected here: " + kind.Kind)
}

func decode[T any](document []byte, list *[]T) error {
	var object T
	if err := yaml.UnmarshalStrict(document, &object); err != nil {
		return err
	}
	*list = append(*list, object)
	return nil
}

// read is everything of a stream of YAML.
func read(t testing.TB, text []byte) built {
	t.Helper()
	var b built
	for _, document := range documents(t, text) {
		require.NoError(t, b.add(document), "%s", document)
	}
	return b
}

func newValidator(t testing.TB) *validator.Validator {
	t.Helper()
	v, err := validator.New(openapiclient.NewHardcodedBuiltins(schemas))
	require.NoError(t, err)
	return v
}

// valid says what the API server would hold against an object. The kinds of prometheus-operator are read strictly into
// its own types instead.
func valid(v *validator.Validator, document []byte) error {
	if bytes.Contains(document, []byte("kind: ServiceMonitor\n")) {
		return (&built{}).add(document)
	}
	_, parsed, err := v.Parse(document)
	if err != nil {
		return err
	}
	return v.Validate(parsed)
}

func TestOverlaysAreWhatTheAPIServerTakesAndKeepTheirPromises(t *testing.T) {
	v := newValidator(t)
	for _, variant := range variants {
		name := variant.overlay
		if variant.sentinels {
			name += " with Sentinels"
		}
		t.Run(name, func(t *testing.T) {
			text := render(t, variant.overlay, variant.sentinels)
			for _, document := range documents(t, text) {
				require.NoError(t, valid(v, document), "%s", document)
			}
			b := read(t, text)
			require.Empty(t, b.problems())
			require.Empty(t, gateRefuses(t, b))
			env := b.config("queuegate-redis").Data
			_, byAddress := env["QUEUEGATE_REDIS_URL"]
			_, byName := env["QUEUEGATE_REDIS_MASTER_NAME"]
			require.Equal(t, variant.sentinels, byName)
			require.Equal(t, !variant.sentinels, byAddress)
		})
	}
}

func TestValidationSeesWhatIsWrong(t *testing.T) {
	v := newValidator(t)
	text := string(render(t, "native-sidecar", false))
	for name, change := range map[string][2]string{
		"a key that does not exist":          {"startupProbe:", "startupProb:"},
		"a number that is a word":            {"failureThreshold: 60", "failureThreshold: sixty"},
		"a sidecar that is none":             {"restartPolicy: Always", "restartPolicy: 1"},
		"a probe without a port":             {"path: /readyz\n", "file: /readyz\n"},
		"a key of a monitor that is unknown": {"targetLabel: job", "tagetLabel: job"},
	} {
		t.Run(name, func(t *testing.T) {
			broken := strings.Replace(text, change[0], change[1], 1)
			require.NotEqual(t, text, broken)
			var found error
			for _, document := range documents(t, []byte(broken)) {
				found = errors.Join(found, valid(v, document))
			}
			require.Error(t, found)
		})
	}
}

// gateRefuses runs `queuegate check` on the configuration of every container of the gate, with its environment, and
// asks whether the command exists. It returns what the program says when it is not content.
func gateRefuses(t testing.TB, b built) string {
	t.Helper()
	var said strings.Builder
	for _, d := range b.deployments {
		gate := containerOf(d.Spec.Template.Spec, "queuegate")
		if gate == nil {
			continue
		}
		dir := t.TempDir()
		for _, secret := range []string{"token-secret", "admin-token", "redis-password"} {
			require.NoError(t, os.WriteFile(filepath.Join(dir, secret), []byte("0123456789abcdef0123456789abcdef0123456789a"), 0o600))
		}
		config := filepath.Join(dir, "queuegate.yaml")
		require.NoError(t, os.WriteFile(config, []byte(b.config("queuegate").Data["queuegate.yaml"]), 0o600))
		env := []string{}
		for name, value := range b.environment(*gate) {
			env = append(env, name+"="+strings.ReplaceAll(value, "/run/secrets/queuegate", dir))
		}
		for _, args := range [][]string{{"check", "-c", config}, {gate.Args[0], "--help"}} {
			said.WriteString(refuses(t, env, args...))
		}
	}
	return said.String()
}

// refuses runs the program and returns what it says when it fails.
func refuses(t testing.TB, env []string, args ...string) string {
	t.Helper()
	cmd := exec.Command(program(t, "queuegate"), args...)
	cmd.Env = env
	out, err := cmd.CombinedOutput()
	if err == nil {
		return ""
	}
	return string(out) + err.Error()
}
