package lab

import (
	"context"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// EnvKeep set to 1 keeps the namespaces of tests that fail, to look at.
const EnvKeep = "ETCDMEMBER_LAB_KEEP"

var notInNames = regexp.MustCompile(`[^a-z0-9]+`)

// Namespace makes a namespace for this test alone, and deletes it when the test ends. If the test fails, what its pods
// were doing is logged first.
func (l *Lab) Namespace(t testing.TB) string {
	t.Helper()
	prefix := strings.Trim(notInNames.ReplaceAllString(strings.ToLower(t.Name()), "-"), "-")
	prefix = strings.TrimRight(prefix[:min(len(prefix), 40)], "-")
	ns, err := l.client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{GenerateName: prefix + "-", Labels: map[string]string{"etcdmember.local/test": "true"}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("making a namespace: %v", err)
	}
	t.Cleanup(func() {
		// The test's own context has ended.
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if t.Failed() {
			l.describe(ctx, t, ns.Name)
			if os.Getenv(EnvKeep) == "1" {
				t.Logf("keeping namespace %s", ns.Name)
				return
			}
		}
		if err := l.client.CoreV1().Namespaces().Delete(ctx, ns.Name, metav1.DeleteOptions{}); err != nil {
			t.Errorf("deleting namespace %s: %v", ns.Name, err)
		}
	})
	return ns.Name
}

// describe logs what someone would look at who had to find out why a test failed.
func (l *Lab) describe(ctx context.Context, t testing.TB, namespace string) {
	for _, args := range [][]string{
		{"get", "all,pvc,pdb", "-o", "wide"},
		{"get", "events", "--sort-by=.lastTimestamp"},
	} {
		out, err := l.TryKubectl(ctx, append(args, "-n", namespace)...)
		if err != nil {
			out += err.Error()
		}
		t.Logf("kubectl %s -n %s:\n%s", strings.Join(args, " "), namespace, out)
	}
	pods, err := l.client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Logf("listing the pods of %s: %v", namespace, err)
		return
	}
	for _, p := range pods.Items {
		for _, c := range p.Spec.Containers {
			out, err := l.TryKubectl(ctx, "logs", "-n", namespace, p.Name, "-c", c.Name, "--tail=30")
			if err != nil {
				out += err.Error()
			}
			t.Logf("last words of %s/%s (%s):\n%s", namespace, p.Name, c.Name, out)
		}
	}
}
