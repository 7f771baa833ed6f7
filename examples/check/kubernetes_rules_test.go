package check_test

import (
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"
)

// shopPort is where the shop of the examples listens.
const shopPort = 9000

// gateFile is as much of queuegate.yaml as has to fit the manifests.
type gateFile struct {
	Listen   string                  `json:"listen"`
	Admin    struct{ Listen string } `json:"admin"`
	Shutdown struct {
		DrainDelay string `json:"drain_delay"`
		Grace      string `json:"grace"`
	} `json:"shutdown"`
}

// problems returns one line for each promise of the README that the objects do not keep.
func (b built) problems() []string {
	var list []string
	check := func(ok bool, format string, args ...any) {
		if !ok {
			list = append(list, fmt.Sprintf(format, args...))
		}
	}
	check(len(b.namespaces) == 1 && b.namespaces[0].Labels["pod-security.kubernetes.io/enforce"] == "restricted", "the namespace takes pods of any right")
	var file gateFile
	check(yaml.Unmarshal([]byte(b.config("queuegate").Data["queuegate.yaml"]), &file) == nil, "queuegate.yaml is no YAML")
	gates, shops := 0, 0
	for _, d := range b.deployments {
		pod := d.Spec.Template
		b.lockedProblems(check, pod.Spec)
		check(d.Spec.Replicas != nil && *d.Spec.Replicas >= 2, "%s: fewer than two pods", d.Name)
		check(slices.ContainsFunc(pod.Spec.TopologySpreadConstraints, func(c core.TopologySpreadConstraint) bool {
			return matches(c.LabelSelector, pod.Labels)
		}), "%s: its pods are not spread", d.Name)
		gate, shop := containerOf(pod.Spec, "queuegate"), containerOf(pod.Spec, "shop")
		if gate != nil {
			gates++
			b.gateProblems(check, pod, *gate, file)
			check(slices.ContainsFunc(b.budgets, func(p policy.PodDisruptionBudget) bool { return matches(p.Spec.Selector, pod.Labels) }), "%s: no disruption budget", d.Name)
		}
		if shop != nil {
			shops++
			b.shopProblems(check, pod, *shop, gate != nil)
		}
		b.drainProblems(check, pod.Spec, gate, shop, file)
	}
	check(gates == 1 && shops == 1, "%d deployments with a gate and %d with a shop", gates, shops)
	b.monitorProblems(check)
	for _, s := range b.services {
		check(s.Spec.Type == "" || s.Spec.Type == core.ServiceTypeClusterIP, "service %s is open to the outside", s.Name)
	}
	return list
}

type checker func(ok bool, format string, args ...any)

// lockedProblems: no right that a container does not need.
func (b built) lockedProblems(check checker, pod core.PodSpec) {
	no := func(p *bool) bool { return p != nil && !*p }
	yes := func(p *bool) bool { return p != nil && *p }
	check(no(pod.EnableServiceLinks), "service links come as settings")
	check(no(pod.AutomountServiceAccountToken), "a token of the API server lies in the pod")
	c := pod.SecurityContext
	check(c != nil && yes(c.RunAsNonRoot) && c.RunAsUser != nil && *c.RunAsUser > 0, "the pod may run as root")
	check(c != nil && c.SeccompProfile != nil && c.SeccompProfile.Type == core.SeccompProfileTypeRuntimeDefault, "no seccomp profile")
	for _, c := range slices.Concat(pod.InitContainers, pod.Containers) {
		s := c.SecurityContext
		check(s != nil && no(s.AllowPrivilegeEscalation), "%s: may gain rights", c.Name)
		check(s != nil && yes(s.ReadOnlyRootFilesystem), "%s: may write into its image", c.Name)
		check(s != nil && s.Capabilities != nil && slices.Equal(s.Capabilities.Drop, []core.Capability{"ALL"}) && len(s.Capabilities.Add) == 0, "%s: has capabilities", c.Name)
		check(!c.Resources.Requests.Cpu().IsZero() && !c.Resources.Requests.Memory().IsZero() && !c.Resources.Limits.Memory().IsZero(), "%s: no resources", c.Name)
		for name, value := range b.environment(c) {
			hidden := strings.HasSuffix(name, "_FILE")
			check(hidden || !strings.Contains(name, "SECRET") && !strings.Contains(name, "TOKEN") && !strings.Contains(name, "PASSWORD"), "%s: %s is a secret in the manifest", c.Name, name)
			check(!hidden || mounts(pod, c, value), "%s: no secret is mounted at %s of %s", c.Name, value, name)
		}
	}
}

// mounts tells whether the directory of a file is a Secret, read only.
func mounts(pod core.PodSpec, c core.Container, file string) bool {
	return slices.ContainsFunc(c.VolumeMounts, func(m core.VolumeMount) bool {
		return m.ReadOnly && strings.HasPrefix(file, m.MountPath+"/") && slices.ContainsFunc(pod.Volumes, func(v core.Volume) bool {
			return v.Name == m.Name && v.Secret != nil && v.Secret.SecretName == "queuegate"
		})
	})
}

// gateProblems: command, file, ports and probes are those of the program.
func (b built) gateProblems(check checker, pod core.PodTemplateSpec, gate core.Container, file gateFile) {
	check(len(gate.Command) == 0 && slices.Equal(gate.Args, []string{"serve", "-c", "/etc/queuegate/queuegate.yaml"}), "the gate is not started as its image does")
	check(slices.ContainsFunc(pod.Spec.Volumes, func(v core.Volume) bool {
		return v.ConfigMap != nil && v.ConfigMap.Name == b.config("queuegate").Name && slices.ContainsFunc(gate.VolumeMounts, func(m core.VolumeMount) bool {
			return m.Name == v.Name && m.MountPath == "/etc/queuegate"
		})
	}), "the file is not mounted")
	public, admin := portOf(file.Listen), portOf(file.Admin.Listen)
	for name, want := range map[string]int32{"http": public, "admin": admin} {
		check(want > 0 && resolve(gate, intstr.FromString(name)) == want, "the port %s is not the one that the gate listens on", name)
	}
	for name, probe := range map[string]*core.Probe{"/healthz": gate.StartupProbe, "/healthz ": gate.LivenessProbe, "/readyz": gate.ReadinessProbe} {
		check(probe != nil && probe.HTTPGet != nil && probe.HTTPGet.Path == strings.TrimSpace(name) && resolve(gate, probe.HTTPGet.Port) == admin,
			"a probe does not ask %s of the admin listener", name)
	}
	// By name, for a Service of another name would come with the same port.
	check(b.reaches(podAt{"ingress-nginx", nil}, pod, gate, public), "the ingress controller does not reach the gate")
	check(b.reaches(podAt{"monitoring", nil}, pod, gate, admin), "Prometheus does not reach the gate")
	for _, from := range []string{"default", pod.Namespace, "ingress-nginx"} {
		check(!b.reaches(podAt{from, nil}, pod, gate, admin), "anybody in %s reaches the admin listener", from)
	}
	check(slices.ContainsFunc(b.services, func(s core.Service) bool {
		return selects(s.Spec.Selector, pod.Labels) && s.Spec.ClusterIP != core.ClusterIPNone && resolve(gate, s.Spec.Ports[0].TargetPort) == public
	}), "no service leads to the gate")
}

// shopProblems: nothing leads to the shop but the gate.
func (b built) shopProblems(check checker, pod core.PodTemplateSpec, shop core.Container, besideGate bool) {
	listen := b.environment(shop)["SHOP_LISTEN"]
	host, _, _ := net.SplitHostPort(listen)
	check(portOf(listen) == shopPort, "the shop listens elsewhere")
	if besideGate {
		check(host == "127.0.0.1", "the shop listens for more than its own pod")
		check(len(shop.Ports) == 0, "the shop's port is shown")
		for _, s := range b.services {
			for _, p := range s.Spec.Ports {
				check(!selects(s.Spec.Selector, pod.Labels) || anyContainer(pod.Spec, p.TargetPort) != shopPort, "service %s leads to the shop around the gate", s.Name)
			}
		}
	} else {
		check(b.reaches(podAt{"shop", map[string]string{"queuegate": "gate"}}, pod, shop, shopPort), "the gate does not reach the shop")
	}
	for _, from := range []podAt{{"default", nil}, {"shop", nil}, {"ingress-nginx", nil}, {"monitoring", nil}, {"default", map[string]string{"queuegate": "gate"}}} {
		check(!b.reaches(from, pod, shop, shopPort), "a pod of %s reaches the shop around the gate", from.namespace)
	}
}

// drainProblems: whoever ends last has the time for it, and the shop outlives what the gate still brings.
func (b built) drainProblems(check checker, pod core.PodSpec, gate, shop *core.Container, file gateFile) {
	delay, err := time.ParseDuration(file.Shutdown.DrainDelay)
	grace, err2 := time.ParseDuration(file.Shutdown.Grace)
	check(err == nil && err2 == nil && delay >= 5*time.Second, "the drain is not set")
	drain := int64((delay + grace).Seconds())
	need := int64(0)
	if shop != nil {
		sleep := int64(0)
		if shop.Lifecycle != nil && shop.Lifecycle.PreStop != nil && shop.Lifecycle.PreStop.Sleep != nil {
			sleep = shop.Lifecycle.PreStop.Sleep.Seconds
		}
		check(sleep >= int64(delay.Seconds()), "the shop ends while it is still sent requests")
		check(gate == nil || sleep >= drain, "the shop ends before the gate has drained")
		need = sleep + 10 // what the shop may take itself
	}
	if gate != nil {
		if native := gate.RestartPolicy != nil; native {
			need += drain // one after the other
		} else {
			need = max(need, drain)
		}
	}
	check(pod.TerminationGracePeriodSeconds != nil && *pod.TerminationGracePeriodSeconds >= need, "the kubelet kills after less than %d s", need)
}

// monitorProblems: the monitor finds a service, and that service the gates.
func (b built) monitorProblems(check checker) {
	check(len(b.monitors) == 1, "no monitor")
	for _, m := range b.monitors {
		i := slices.IndexFunc(b.services, func(s core.Service) bool { return matches(&m.Spec.Selector, s.Labels) })
		check(i >= 0, "the monitor selects no service")
		if i < 0 {
			continue
		}
		for _, e := range m.Spec.Endpoints {
			check(slices.ContainsFunc(b.services[i].Spec.Ports, func(p core.ServicePort) bool { return p.Name == e.Port }) && e.Path == "/metrics", "the monitor asks for a port that does not exist")
		}
		check(slices.ContainsFunc(b.deployments, func(d apps.Deployment) bool {
			return selects(b.services[i].Spec.Selector, d.Spec.Template.Labels) && containerOf(d.Spec.Template.Spec, "queuegate") != nil
		}), "the service of the monitor has no gates")
	}
}

// config finds a map by the name before its hash.
func (b built) config(name string) core.ConfigMap {
	for _, c := range b.configs {
		if i := strings.LastIndex(c.Name, "-"); i >= 0 && c.Name[:i] == name {
			return c
		}
	}
	return core.ConfigMap{}
}

// environment is what a container gets.
func (b built) environment(c core.Container) map[string]string {
	env := map[string]string{}
	for _, from := range c.EnvFrom {
		for _, m := range b.configs {
			if from.ConfigMapRef != nil && from.ConfigMapRef.Name == m.Name {
				maps.Copy(env, m.Data)
			}
		}
	}
	for _, e := range c.Env {
		env[e.Name] = e.Value
	}
	return env
}

// podAt is somebody who may want to connect.
type podAt struct {
	namespace string
	labels    map[string]string
}

// reaches decides as NetworkPolicy does: a pod that no policy selects is open, else one of them has to allow it.
func (b built) reaches(from podAt, to core.PodTemplateSpec, c core.Container, port int32) bool {
	selected := false
	for _, p := range b.policies {
		if !matches(&p.Spec.PodSelector, to.Labels) || !slices.Contains(p.Spec.PolicyTypes, networking.PolicyTypeIngress) {
			continue
		}
		selected = true
		for _, rule := range p.Spec.Ingress {
			if allowsPeer(rule.From, from, p.Namespace) && allowsPort(rule.Ports, c, port) {
				return true
			}
		}
	}
	return !selected
}

func portOf(address string) int32 {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return 0
	}
	n, _ := strconv.ParseInt(port, 10, 32)
	return int32(n)
}

func matches(s *meta.LabelSelector, set map[string]string) bool {
	selector, err := meta.LabelSelectorAsSelector(s)
	return err == nil && selector.Matches(labels.Set(set))
}

func selects(selector, set map[string]string) bool {
	return len(selector) > 0 && labels.SelectorFromSet(selector).Matches(labels.Set(set))
}

// allowsPeer tells whether a rule names somebody; a rule that names nobody means everybody.
func allowsPeer(peers []networking.NetworkPolicyPeer, from podAt, namespace string) bool {
	if len(peers) == 0 {
		return true
	}
	return slices.ContainsFunc(peers, func(p networking.NetworkPolicyPeer) bool {
		if p.IPBlock != nil {
			return true // pods have addresses too
		}
		where := from.namespace == namespace
		if p.NamespaceSelector != nil {
			where = matches(p.NamespaceSelector, map[string]string{"kubernetes.io/metadata.name": from.namespace})
		}
		return where && (p.PodSelector == nil || matches(p.PodSelector, from.labels))
	})
}

func allowsPort(ports []networking.NetworkPolicyPort, c core.Container, port int32) bool {
	return len(ports) == 0 || slices.ContainsFunc(ports, func(p networking.NetworkPolicyPort) bool {
		return p.Port == nil || resolve(c, *p.Port) == port
	})
}

// resolve is the number of a port of a container, by number or name.
func resolve(c core.Container, port intstr.IntOrString) int32 {
	if port.Type == intstr.Int {
		return port.IntVal
	}
	for _, p := range c.Ports {
		if p.Name == port.StrVal {
			return p.ContainerPort
		}
	}
	return 0
}

// anyContainer resolves a port of a service.
func anyContainer(pod core.PodSpec, port intstr.IntOrString) int32 {
	for _, c := range slices.Concat(pod.InitContainers, pod.Containers) {
		if n := resolve(c, port); n != 0 {
			return n
		}
	}
	return 0
}

// containerOf finds a container that runs with the pod.
func containerOf(pod core.PodSpec, name string) *core.Container {
	for _, c := range slices.Concat(pod.InitContainers, pod.Containers) {
		if c.Name == name {
			return &c
		}
	}
	return nil
}

func TestRulesSeeWhatIsWrong(t *testing.T) {
	for _, tt := range []struct{ overlay, old, new, want string }{
		{"native-sidecar", "value: 127.0.0.1:9000", "value: :9000", "more than its own pod"},
		{"native-sidecar", "targetPort: http", "targetPort: 9000", "leads to the shop around the gate"},
		{"native-sidecar", "port: http\n      protocol: TCP", "port: 9000\n      protocol: TCP", "reaches the shop around the gate"},
		{"native-sidecar", "path: /readyz", "path: /checkout", "does not ask /readyz"},
		{"native-sidecar", "port: admin\n", "port: http\n", "admin listener"},
		{"native-sidecar", "containerPort: 8080", "containerPort: 8081", "not the one that the gate listens on"},
		{"native-sidecar", "terminationGracePeriodSeconds: 100", "terminationGracePeriodSeconds: 60", "kubelet kills"},
		{"native-sidecar", "seconds: 45", "seconds: 5", "the shop ends"},
		{"native-sidecar", "enableServiceLinks: false", "enableServiceLinks: true", "service links"},
		{"plain-sidecar", "seconds: 45", "seconds: 30", "before the gate has drained"},
		{"plain-sidecar", "readOnlyRootFilesystem: true", "readOnlyRootFilesystem: false", "may write"},
		{"plain-sidecar", "- ALL", "- NET_RAW", "capabilities"},
		{"plain-sidecar", "runAsNonRoot: true", "runAsNonRoot: false", "root"},
		{"plain-sidecar", "name: QUEUEGATE_TOKEN_SECRET_FILE", "name: QUEUEGATE_TOKEN_SECRET", "secret in the manifest"},
		{"plain-sidecar", "drain_delay: 10s", "drain_delay: 40s", "drained"},
		{"standalone", "  podSelector:\n    matchLabels:\n      app.kubernetes.io/name: shop\n", "  podSelector:\n    matchLabels:\n      app.kubernetes.io/name: other\n", "does not reach the shop"},
		{"standalone", "    - podSelector:\n        matchLabels:\n          queuegate: gate\n", "    - podSelector: {}\n", "reaches the shop around the gate"},
		{"standalone", "replicas: 2", "replicas: 1", "fewer than two"},
		{"standalone", "maxUnavailable: 1\n  selector:\n    matchLabels:\n      queuegate: gate", "maxUnavailable: 1\n  selector:\n    matchLabels:\n      queuegate: gates", "disruption"},
		{"standalone", "port: admin\n    relabelings", "port: metrics\n    relabelings", "port that does not exist"},
	} {
		t.Run(tt.overlay+": "+tt.want, func(t *testing.T) {
			text := string(render(t, tt.overlay, false))
			broken := strings.Replace(text, tt.old, tt.new, 1)
			require.NotEqual(t, text, broken, "the text to replace is not there:\n%s", text)
			require.Contains(t, strings.Join(read(t, []byte(broken)).problems(), "\n"), tt.want)
		})
	}
	b := read(t, []byte(strings.Replace(string(render(t, "standalone", false)), "trusted_proxies:", "trusted_proxy:", 1)))
	require.Contains(t, gateRefuses(t, b), "trusted_proxy")
}
