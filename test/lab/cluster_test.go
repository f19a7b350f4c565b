package lab_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/etcdmember/kubectl-etcdmember/test/lab"
)

// Three nodes in three zones, each of its own name before the API server.
func TestNodes(t *testing.T) {
	l := lab.Get(t)
	nodes, err := l.Client().CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	zones := map[string]bool{}
	for _, n := range nodes.Items {
		zones[n.Labels[corev1.LabelTopologyZone]] = true
		if n.Status.NodeInfo.KubeletVersion != "v1.36.3" {
			t.Errorf("%s has kubelet %s", n.Name, n.Status.NodeInfo.KubeletVersion)
		}
	}
	if len(nodes.Items) != 3 || len(zones) != 3 {
		t.Errorf("%d nodes in zones %v, want 3 in 3", len(nodes.Items), zones)
	}
}

// RBAC is on, and service-account tokens are bound ones: what a token may not do is forbidden.
func TestServiceAccountsMayOnlyWhatTheyAreAllowed(t *testing.T) {
	l := lab.Get(t)
	ns := l.Namespace(t)
	eventually(t, 10*time.Second, "the default service account", func() error {
		_, err := l.Client().CoreV1().ServiceAccounts(ns).Get(t.Context(), "default", metav1.GetOptions{})
		return err
	})
	token, err := l.Client().CoreV1().ServiceAccounts(ns).CreateToken(t.Context(), "default", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	config := rest.AnonymousClientConfig(l.RESTConfig())
	config.BearerToken = token.Status.Token
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.CoreV1().Secrets(ns).List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("listing Secrets without permission: %v, want forbidden", err)
	}
	review, err := client.AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if want := "system:serviceaccount:" + ns + ":default"; review.Status.UserInfo.Username != want {
		t.Errorf("the token is %s's, want %s's", review.Status.UserInfo.Username, want)
	}
}

// A ValidatingAdmissionPolicy takes effect.
func TestAdmissionPolicies(t *testing.T) {
	l := lab.Get(t)
	ns := l.Namespace(t)
	policies := l.Client().AdmissionregistrationV1()
	policy := &admissionv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: ns},
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionv1.MatchResources{
				NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: ns}},
				ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
					Operations: []admissionv1.OperationType{admissionv1.Create},
					Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
				}}},
			},
			Validations: []admissionv1.Validation{{Expression: "object.metadata.name != 'forbidden'", Message: "not this one"}},
		},
	}
	if _, err := policies.ValidatingAdmissionPolicies().Create(t.Context(), policy, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// The test's own context has ended.
		if _, err := l.TryKubectl(context.Background(), "delete", "validatingadmissionpolicy,validatingadmissionpolicybinding", ns); err != nil {
			t.Error(err)
		}
	})
	binding := &admissionv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: ns},
		Spec:       admissionv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: ns, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny}},
	}
	if _, err := policies.ValidatingAdmissionPolicyBindings().Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	configMaps := l.Client().CoreV1().ConfigMaps(ns)
	eventually(t, 30*time.Second, "the policy denies", func() error {
		_, err := configMaps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "forbidden"}}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err == nil || !strings.Contains(err.Error(), "not this one") {
			return fmt.Errorf("creating what is forbidden: %v", err)
		}
		return nil
	})
	if _, err := configMaps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "allowed"}}, metav1.CreateOptions{}); err != nil {
		t.Errorf("creating what is allowed: %v", err)
	}
}

// Pods reach each other by the names of pods and Services, and the API server by its own; logs, exec and port-forward
// reach them from the host, through the lab's only door.
func TestPodsAreReached(t *testing.T) {
	l := lab.Get(t)
	ns := l.Namespace(t)
	e := l.StartEtcd(t, ns, lab.EtcdOptions{TLS: true})

	tls := []string{"--cacert=/etc/etcd/tls/client/ca.crt", "--cert=/etc/etcd/tls/client/tls.crt", "--key=/etc/etcd/tls/client/tls.key"}
	for _, host := range []string{"main-client", "main-client." + ns + ".svc", "main-1.main-peer." + ns + ".svc.cluster.local"} {
		command := append([]string{"exec", "-n", ns, e.Pod(0), "-c", lab.EtcdContainer, "--", "etcdctl", "--endpoints=https://" + host + ":2379"}, tls...)
		if out := l.Kubectl(t, append(command, "member", "list")...); strings.Count(out, "started") != 3 {
			t.Errorf("etcdctl member list by way of %s:\n%s", host, out)
		}
	}
	if out := l.Kubectl(t, "logs", "-n", ns, e.Pod(2), "-c", lab.EtcdContainer, "--tail=5"); !strings.Contains(out, `"level"`) {
		t.Errorf("kubectl logs printed %q", out)
	}
	if err := ready(t, l, ns, e.Pod(1), 30*time.Second); err != nil {
		t.Errorf("asking through a port-forward: %v", err)
	}
	// Each member on a node of its own: the scheduler heeds the wish, and volumes follow it.
	nodes := map[string]bool{}
	for _, pod := range e.Pods() {
		nodes[e.GetPod(t, pod).Spec.NodeName] = true
	}
	if !l.IsOwn() && len(nodes) != 3 {
		t.Errorf("members are on nodes %v, want one on each", nodes)
	}
}

// The API server is reached at its ClusterIP from within a pod, by an agent or a controller: here by whatever the lab's own
// network dials.
func TestAPIServerHasItsClusterIP(t *testing.T) {
	l := lab.Get(t)
	conn, err := l.Dial(t.Context(), "kubernetes.default.svc:443")
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
}

// ready asks a member whether it is ready, through a port-forward.
func ready(t *testing.T, l *lab.Lab, namespace, pod string, within time.Duration) error {
	t.Helper()
	client := &http.Client{Timeout: within, Transport: &http.Transport{DisableKeepAlives: true, DialContext: lab.Forwarder(l, namespace, pod, 2381)}}
	answer, err := client.Get("http://member/readyz")
	if err != nil {
		return fmt.Errorf("asking %s: %w", pod, err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answered %s", pod, answer.Status)
	}
	return nil
}
