//go:build !race

// Nothing runs concurrently here, and building Kubernetes' types with the race detector takes time for nothing.

package kubernetes

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "write monitoring/rules.yaml instead of comparing it")

// made holds every object of one kustomization, by name.
type made struct {
	deployments  map[string]*appsv1.Deployment
	statefulSets map[string]*appsv1.StatefulSet
	services     map[string]*corev1.Service
	configMaps   map[string]*corev1.ConfigMap
	accounts     map[string]*corev1.ServiceAccount
	namespaces   map[string]*corev1.Namespace
	policies     map[string]*networkingv1.NetworkPolicy
	budgets      map[string]*policyv1.PodDisruptionBudget
	scalers      map[string]*autoscalingv2.HorizontalPodAutoscaler
	monitors     map[string]*monitoringv1.ServiceMonitor
	rules        map[string]*monitoringv1.PrometheusRule
}

func build(t *testing.T, dir string) made {
	t.Helper()
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir)
	require.NoError(t, err)
	m := made{
		map[string]*appsv1.Deployment{},
		map[string]*appsv1.StatefulSet{},
		map[string]*corev1.Service{},
		map[string]*corev1.ConfigMap{},
		map[string]*corev1.ServiceAccount{},
		map[string]*corev1.Namespace{},
		map[string]*networkingv1.NetworkPolicy{},
		map[string]*policyv1.PodDisruptionBudget{},
		map[string]*autoscalingv2.HorizontalPodAutoscaler{},
		map[string]*monitoringv1.ServiceMonitor{},
		map[string]*monitoringv1.PrometheusRule{},
	}
	for _, r := range resources.Resources() {
		raw, err := r.AsYAML()
		require.NoError(t, err)
		name := r.GetName()
		switch kind := r.GetApiVersion() + " " + r.GetKind(); kind {
		case "apps/v1 Deployment":
			m.deployments[name] = strict(t, raw, &appsv1.Deployment{})
		case "apps/v1 StatefulSet":
			m.statefulSets[name] = strict(t, raw, &appsv1.StatefulSet{})
		case "v1 Service":
			m.services[name] = strict(t, raw, &corev1.Service{})
		case "v1 ConfigMap":
			m.configMaps[name] = strict(t, raw, &corev1.ConfigMap{})
		case "v1 ServiceAccount":
			m.accounts[name] = strict(t, raw, &corev1.ServiceAccount{})
		case "v1 Namespace":
			m.namespaces[name] = strict(t, raw, &corev1.Namespace{})
		case "networking.k8s.io/v1 NetworkPolicy":
			m.policies[name] = strict(t, raw, &networkingv1.NetworkPolicy{})
		case "policy/v1 PodDisruptionBudget":
			m.budgets[name] = strict(t, raw, &policyv1.PodDisruptionBudget{})
		case "autoscaling/v2 HorizontalPodAutoscaler":
			m.scalers[name] = strict(t, raw, &autoscalingv2.HorizontalPodAutoscaler{})
		case "monitoring.coreos.com/v1 ServiceMonitor":
			m.monitors[name] = strict(t, raw, &monitoringv1.ServiceMonitor{})
		case "monitoring.coreos.com/v1 PrometheusRule":
			m.rules[name] = strict(t, raw, &monitoringv1.PrometheusRule{})
		default:
			t.Errorf("%s %s: no test handles this kind", kind, name)
		}
		if r.GetKind() != "Namespace" {
			assert.Equal(t, "otelllm", r.GetNamespace(), "%s %s", r.GetKind(), name)
		}
	}
	return m
}

// strict decodes an object and fails for fields that its type does not have.
func strict[T any](t *testing.T, raw []byte, into *T) *T {
	t.Helper()
	require.NoError(t, yaml.UnmarshalStrict(raw, into), "%s", raw)
	return into
}

func TestOverlays(t *testing.T) {
	for _, tt := range []struct {
		dir  string
		pods []string
		has  func(made) bool
	}{
		{"single", []string{"otelcol-llm"}, func(m made) bool { return *m.deployments["otelcol-llm"].Spec.Replicas == 1 }},
		{"two-layers", []string{"otelcol-llm-gateway", "otelcol-llm-classifier"}, func(m made) bool {
			return m.scalers["otelcol-llm-gateway"].Spec.ScaleTargetRef.Name == "otelcol-llm-gateway" &&
				len(m.budgets) == 2 && m.services["otelcol-llm-classifier"].Spec.ClusterIP == corev1.ClusterIPNone &&
				m.statefulSets["otelcol-llm-classifier"].Spec.ServiceName == "otelcol-llm-classifier" &&
				m.deployments["otelcol-llm-gateway"].Spec.Replicas == nil // the autoscaler sets it
		}},
	} {
		t.Run(tt.dir, func(t *testing.T) {
			m := build(t, tt.dir)
			assert.True(t, tt.has(m))
			require.Len(t, m.monitors, 1)
			require.Len(t, m.rules, 1)
			pods := map[string]*corev1.PodTemplateSpec{}
			for name, d := range m.deployments {
				pods[name] = &d.Spec.Template
				assertSelects(t, name, d.Spec.Selector, d.Spec.Template.Labels)
			}
			for name, s := range m.statefulSets {
				pods[name] = &s.Spec.Template
				assertSelects(t, name, s.Spec.Selector, s.Spec.Template.Labels)
				assert.Contains(t, m.services, s.Spec.ServiceName)
			}
			var names []string
			for name, pod := range pods {
				names = append(names, name)
				t.Run(name, func(t *testing.T) { checkPod(t, m, pod) })
			}
			assert.ElementsMatch(t, tt.pods, names)
			checkSelectors(t, m, pods)
		})
	}
}

// checkPod checks a pod against the restricted profile, and checks that everything it refers to exists.
func checkPod(t *testing.T, m made, pod *corev1.PodTemplateSpec) {
	spec := pod.Spec
	assert.True(t, *spec.SecurityContext.RunAsNonRoot)
	assert.Equal(t, corev1.SeccompProfileTypeRuntimeDefault, spec.SecurityContext.SeccompProfile.Type)
	assert.False(t, *spec.AutomountServiceAccountToken)
	assert.Contains(t, m.accounts, spec.ServiceAccountName)
	assert.GreaterOrEqual(t, *spec.TerminationGracePeriodSeconds, int64(60))
	require.Len(t, spec.Containers, 1)
	c := spec.Containers[0]
	assert.Equal(t, "otelcol-llm:0.1.0-dev", c.Image)
	assert.True(t, *c.SecurityContext.ReadOnlyRootFilesystem)
	assert.False(t, *c.SecurityContext.AllowPrivilegeEscalation)
	assert.Equal(t, []corev1.Capability{"ALL"}, c.SecurityContext.Capabilities.Drop)

	ports := map[string]int32{}
	for _, p := range c.Ports {
		ports[p.Name] = p.ContainerPort
		assert.Greater(t, p.ContainerPort, int32(1023))
	}
	for _, probe := range []*corev1.Probe{c.StartupProbe, c.ReadinessProbe, c.LivenessProbe} {
		require.NotNil(t, probe)
		assert.Contains(t, ports, probe.HTTPGet.Port.StrVal)
	}

	memory := c.Resources.Limits.Memory()
	assert.True(t, c.Resources.Requests.Memory().Equal(*memory), "the memory request has to equal the limit: memory that is not reserved may be missing when it is needed")
	assert.False(t, c.Resources.Requests.Cpu().IsZero())

	// Each configuration that the command names is in the image or in a ConfigMap.
	volumes := map[string]*corev1.ConfigMap{}
	for _, v := range spec.Volumes {
		require.NotNil(t, v.ConfigMap)
		require.Contains(t, m.configMaps, v.ConfigMap.Name)
		volumes[v.Name] = m.configMaps[v.ConfigMap.Name]
	}
	require.NotEmpty(t, c.Args)
	for _, arg := range c.Args {
		dir, file := filepath.Split(strings.TrimPrefix(arg, "--config="))
		if dir == "/etc/otelcol-llm/" {
			assert.FileExists(t, filepath.Join("..", file))
			continue
		}
		var found bool
		for _, mount := range c.VolumeMounts {
			found = found || mount.MountPath+"/" == dir && volumes[mount.Name] != nil && volumes[mount.Name].Data[file] != ""
		}
		assert.True(t, found, arg)
	}

	// The ports that the configuration listens on are those of the pod.
	for _, config := range volumes {
		for _, text := range config.Data {
			for line := range strings.SplitSeq(text, "\n") {
				if _, port, ok := strings.Cut(line, "0.0.0.0:"); ok {
					assert.Contains(t, portsOf(ports), port)
				}
			}
		}
	}
}

func portsOf(ports map[string]int32) (list []string) {
	for _, p := range ports {
		list = append(list, itoa(p))
	}
	return list
}

func itoa(port int32) string { return strconv.Itoa(int(port)) }

func assertSelects(t *testing.T, name string, s *metav1.LabelSelector, of map[string]string) {
	t.Helper()
	selector, err := metav1.LabelSelectorAsSelector(s)
	require.NoError(t, err, name)
	assert.True(t, selector.Matches(labels.Set(of)), "%s: %s does not select %v", name, selector, of)
}

// checkSelectors checks that every selector of pods selects some, and that every port that it names is one of theirs.
func checkSelectors(t *testing.T, m made, pods map[string]*corev1.PodTemplateSpec) {
	selected := func(match map[string]string) (list []*corev1.PodTemplateSpec) {
		for _, pod := range pods {
			if labels.SelectorFromSet(match).Matches(labels.Set(pod.Labels)) {
				list = append(list, pod)
			}
		}
		return list
	}
	has := func(pod *corev1.PodTemplateSpec, port string) bool {
		for _, p := range pod.Spec.Containers[0].Ports {
			if p.Name == port {
				return true
			}
		}
		return false
	}
	for name, s := range m.services {
		chosen := selected(s.Spec.Selector)
		require.Len(t, chosen, 1, "Service %s", name)
		for _, p := range s.Spec.Ports {
			assert.True(t, has(chosen[0], p.TargetPort.StrVal), "Service %s: port %s", name, p.Name)
		}
	}
	for name, b := range m.budgets {
		assert.Len(t, selected(b.Spec.Selector.MatchLabels), 1, "PodDisruptionBudget %s", name)
	}
	for name, p := range m.policies {
		chosen := selected(p.Spec.PodSelector.MatchLabels)
		assert.NotEmpty(t, chosen, "NetworkPolicy %s", name)
		for _, rule := range p.Spec.Ingress {
			for _, port := range rule.Ports {
				var found bool
				for _, pod := range chosen {
					found = found || has(pod, port.Port.StrVal)
				}
				assert.True(t, found, "NetworkPolicy %s: port %s", name, port.Port)
			}
		}
	}
	for name, monitor := range m.monitors {
		for _, endpoint := range monitor.Spec.Endpoints {
			var found bool
			for _, s := range m.services {
				assertSelects(t, name, &monitor.Spec.Selector, s.Labels)
				for _, p := range s.Spec.Ports {
					found = found || p.Name == endpoint.Port
				}
			}
			assert.True(t, found, "ServiceMonitor %s: no Service has port %s", name, endpoint.Port)
		}
	}
}

// The published schemas check what the types do not: required fields, and the values of enums. They come from npm, as
// validators. KUBERNETES_SCHEMAS names the folder that scripts/npm-packages has installed them in.
func TestPublishedSchemas(t *testing.T) {
	dir := os.Getenv("KUBERNETES_SCHEMAS")
	if dir == "" {
		t.Skip("LEFT OUT: KUBERNETES_SCHEMAS names no folder: run `make validate`, which fetches them where it can")
	}
	raw, err := os.ReadFile("schema/check.mjs")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "check.mjs"), raw, 0o600))
	check := func(objects []byte) (string, error) {
		cmd := exec.CommandContext(t.Context(), "node", "check.mjs")
		cmd.Dir, cmd.Stdin = dir, bytes.NewReader(objects)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	for _, overlay := range []string{"single", "two-layers"} {
		t.Run(overlay, func(t *testing.T) {
			resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), overlay)
			require.NoError(t, err)
			var objects []json.RawMessage
			for _, r := range resources.Resources() {
				raw, err := r.MarshalJSON()
				require.NoError(t, err)
				objects = append(objects, raw)
			}
			raw, err := json.Marshal(objects)
			require.NoError(t, err)
			out, err := check(raw)
			require.NoError(t, err, out)
			assert.Equal(t, strconv.Itoa(len(objects))+" objects match the published schemas\n", out)
		})
	}
	t.Run("what does not fit is refused", func(t *testing.T) {
		for object, want := range map[string]string{
			`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"d"},"spec":{"selector":{},"template":{"spec":{"containers":[{}]}}}}`:             "must have required property name",
			`{"apiVersion":"monitoring.coreos.com/v1","kind":"ServiceMonitor","metadata":{"name":"m"},"spec":{"selector":{},"endpoints":[{"scheme":"ftp"}]}}`: "must be equal to one of the allowed values",
		} {
			out, err := check([]byte("[" + object + "]"))
			require.Error(t, err, object)
			assert.Contains(t, out, want)
		}
	})
}

// The gateways resolve the classifiers by the name of the classifiers' Service.
func TestGatewaysFindClassifiers(t *testing.T) {
	m := build(t, "two-layers")
	var config struct {
		Exporters struct {
			LoadBalancing struct {
				RoutingKey string `json:"routing_key"`
				Resolver   struct {
					DNS struct{ Hostname, Port string }
				}
			} `json:"load_balancing"`
		}
	}
	raw, err := os.ReadFile("two-layers/collector-gateway.yaml")
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(raw, &config))
	lb := config.Exporters.LoadBalancing
	assert.Equal(t, "traceID", lb.RoutingKey)
	require.Contains(t, m.services, lb.Resolver.DNS.Hostname)
	assert.Equal(t, lb.Resolver.DNS.Port, itoa(m.services[lb.Resolver.DNS.Hostname].Spec.Ports[0].Port))
}

// The operator's rules are the same as those in prometheus/.
func TestRules(t *testing.T) {
	rule := monitoringv1.PrometheusRule{
		TypeMeta:   metav1.TypeMeta{APIVersion: "monitoring.coreos.com/v1", Kind: "PrometheusRule"},
		ObjectMeta: metav1.ObjectMeta{Name: "otelcol-llm"},
	}
	for _, file := range []string{"recording.yaml", "alerts.yaml"} {
		raw, err := os.ReadFile("../prometheus/" + file)
		require.NoError(t, err)
		var groups monitoringv1.PrometheusRuleSpec
		require.NoError(t, yaml.UnmarshalStrict(raw, &groups))
		rule.Spec.Groups = append(rule.Spec.Groups, groups.Groups...)
	}
	body, err := yaml.Marshal(rule)
	require.NoError(t, err)
	want := append([]byte("# Made of ../../prometheus by `go test ./kubernetes -update`. DO NOT EDIT.\n"), body...)
	if *update {
		require.NoError(t, os.WriteFile("monitoring/rules.yaml", want, 0o644))
	}
	got, err := os.ReadFile("monitoring/rules.yaml")
	require.NoError(t, err)
	assert.True(t, bytes.Equal(want, got), "stale: run `go test ./kubernetes -update` in deploy/collector")
}
