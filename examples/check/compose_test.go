package check_test

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

// project loads examples/compose, changed from old to new, as Compose does: against its schema, with all references
// resolved and checked.
func project(old, now string) (*types.Project, error) {
	dir, err := filepath.Abs("../compose")
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(filepath.Join(dir, "compose.yaml"))
	if err != nil {
		return nil, err
	}
	changed := strings.Replace(string(text), old, now, 1)
	if old != now && changed == string(text) {
		return nil, fmt.Errorf("%q is not in the file", old)
	}
	return loader.LoadWithContext(context.Background(), types.ConfigDetails{
		WorkingDir: dir, Environment: types.Mapping{},
		ConfigFiles: []types.ConfigFile{{Filename: filepath.Join(dir, "compose.yaml"), Content: []byte(changed)}},
	})
}

// composeProblems returns one line for each promise that the project does not keep.
func composeProblems(p *types.Project, file gateConfig) []string {
	var list []string
	check := func(ok bool, format string, args ...any) {
		if !ok {
			list = append(list, fmt.Sprintf(format, args...))
		}
	}
	for name, s := range p.Services {
		for _, v := range s.Volumes {
			if v.Type == types.VolumeTypeBind {
				_, err := os.Stat(v.Source)
				check(err == nil, "%s: %s does not exist", name, v.Source)
			}
		}
		if s.Build != nil {
			_, err := os.Stat(filepath.Join(s.Build.Context, s.Build.Dockerfile))
			check(err == nil, "%s: no Dockerfile", name)
		}
		for _, port := range s.Ports {
			check(port.HostIP == "127.0.0.1" && (name == "nginx" || name == "prometheus" || name == "grafana"), "%s: port %s is open", name, port.Published)
		}
		check(!strings.HasSuffix(s.Image, ":latest") && strings.Contains(s.Image, ":"), "%s: any version of %s", name, s.Image)
		// Whoever shares a network with the shop reaches it: the gates, and Redis which it needs itself.
		_, near := s.Networks["shop"]
		check(near == slices.Contains([]string{"gate-1", "gate-2", "shop"}, name), "%s: the network of the shop", name)
	}
	for _, name := range []string{"gate-1", "gate-2"} {
		g := p.Services[name]
		check(g.ReadOnly && slices.Equal(g.CapDrop, []string{"ALL"}), "%s: may more than it needs", name)
		check(g.StopGracePeriod != nil && g.StopGracePeriod.String() == "50s", "%s: killed while it drains", name)
		check(g.DependsOn["redis"].Condition == types.ServiceConditionHealthy, "%s: starts before Redis", name)
	}
	for name := range p.Services["shop"].Networks {
		check(p.Networks[name].Internal, "the network %s of the shop leads outside", name)
	}
	nginx := p.Services["nginx"].Networks["front"].Ipv4Address + "/32"
	check(slices.Equal(file.Trusted, []string{nginx}), "the gates believe %v, not nginx", file.Trusted)
	upstream := "http://" + p.Services["shop"].Networks["shop"].Ipv4Address + ":9000"
	check(file.Upstream.URL == upstream, "the gates look for the shop at %s", file.Upstream.URL)
	conf, err := os.ReadFile("../compose/nginx.conf")
	check(err == nil, "no nginx.conf")
	for _, name := range []string{"gate-1", "gate-2"} {
		address := p.Services[name].Networks["front"].Ipv4Address
		_, err := netip.ParseAddr(address)
		check(err == nil && strings.Contains(string(conf), "server "+address+":8080;"), "nginx does not know %s", name)
	}
	scrape, err := os.ReadFile("../observability/prometheus.yml")
	check(err == nil && strings.Contains(string(scrape), `"gate-1:9090", "gate-2:9090"`), "Prometheus asks other gates")
	return list
}

// gateConfig is as much of the gates' file as has to fit the project.
type gateConfig struct {
	Trusted  []string `json:"trusted_proxies"`
	Upstream struct {
		URL string `json:"url"`
	} `json:"upstream"`
}

func TestComposeProjectIsWhatComposeTakesAndKeepsItsPromises(t *testing.T) {
	text, err := os.ReadFile("../compose/queuegate.yaml")
	require.NoError(t, err)
	var file gateConfig
	require.NoError(t, yaml.Unmarshal(text, &file))
	p, err := project("", "")
	require.NoError(t, err)
	require.Empty(t, composeProblems(p, file))
	for _, tt := range []struct{ old, now, want string }{
		{"    restart: unless-stopped\n", "    restrat: unless-stopped\n", "restrat"},
		{"depends_on: [prometheus]", "depends_on: [prometeus]", "prometeus"},
		{"networks: [line]", "networks: [lien]", "lien"},
		{"ports: [\"127.0.0.1:8080:8080\"]", "ports: [\"8080:8080\"]", "is open"},
		{"networks: [watch, outside]", "networks: [watch, outside, shop]", "network of the shop"},
		{"./nginx.conf:", "./nginx.cfg:", "does not exist"},
		{"172.31.77.10", "172.31.77.9", "not nginx"},
		{"172.31.77.12", "172.31.77.13", "does not know gate-2"},
		{"stop_grace_period: 50s", "stop_grace_period: 10s", "while it drains"},
	} {
		t.Run(tt.want, func(t *testing.T) {
			p, err := project(tt.old, tt.now)
			if err != nil {
				require.ErrorContains(t, err, tt.want)
				return
			}
			require.Contains(t, strings.Join(composeProblems(p, file), "\n"), tt.want)
		})
	}
	// The file itself, with the environment of the containers.
	dir := t.TempDir()
	secret := filepath.Join(dir, "secret")
	require.NoError(t, os.WriteFile(secret, []byte("0123456789abcdef0123456789abcdef0123456789a"), 0o600))
	require.Empty(t, refuses(t, []string{"QUEUEGATE_TOKEN_SECRET_FILE=" + secret, "QUEUEGATE_ADMIN_TOKEN_FILE=" + secret}, "check", "-c", "../compose/queuegate.yaml"))
}
