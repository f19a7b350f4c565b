package cli

import (
	"bytes"
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/etcdmember/kubectl-etcdmember/pkg/health"
	"github.com/etcdmember/kubectl-etcdmember/pkg/model"
	"github.com/etcdmember/kubectl-etcdmember/test/listserver"
)

const (
	anEtcd = "apiVersion: druid.gardener.cloud/v1alpha1\nkind: Etcd\nmetadata: {name: main, namespace: ns}\nspec: {replicas: 1}\n---\n"
	aSet   = "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: main, namespace: ns}\nspec: {replicas: 1, selector: {matchLabels: {app: main}}}\n---\n"
	aPod   = "apiVersion: v1\nkind: Pod\nmetadata: {name: main-0, namespace: ns, labels: {app: main}, ownerReferences: [{apiVersion: apps/v1, kind: StatefulSet, name: main, controller: true}]}\n---\n"
	// ofEtcd makes of aSet the Etcd's.
	ofEtcd = "namespace: ns, ownerReferences: [{apiVersion: druid.gardener.cloud/v1alpha1, kind: Etcd, name: main, uid: u, controller: true}]}"
)

func etcdsSet() string { return strings.Replace(aSet, "namespace: ns}", ofEtcd, 1) }

// buffer may be read while it is written.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// await waits until a text was printed.
func (b *buffer) await(t *testing.T, text string) {
	t.Helper()
	for range 150 {
		if strings.Contains(b.String(), text) {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatalf("%q was not printed within 15 s:\n%s", text, b)
}

// plugin runs the plugin against a server.
func plugin(ctx context.Context, kubeconfig string, stdout, stderr *buffer, args ...string) int {
	f := &Factory{
		IOStreams: genericiooptions.IOStreams{In: strings.NewReader(""), Out: stdout, ErrOut: stderr},
		Config:    genericclioptions.NewConfigFlags(true), Now: time.Now,
	}
	return Main(ctx, f, append([]string{"--kubeconfig", kubeconfig}, args...))
}

// TestNotReadIsNotAbsent: where something can't be read that could have told of a cluster, nobody says that it is not there.
func TestNotReadIsNotAbsent(t *testing.T) {
	tests := map[string]struct {
		objects string
		refused []string
		empty   []string
		args    string
		code    int
		stderr  string
	}{
		"nothing may be listed": {
			refused: []string{"etcdmembers", "etcds", "statefulsets", "leases"}, args: "status main",
			code: 2, stderr: "error: can't list EtcdMembers in namespace ns: etcdmembers is refused; ask an administrator",
		},
		"EtcdMembers could have told": {
			objects: aSet, refused: []string{"etcdmembers"}, args: "status nosuch",
			code: 2, stderr: "error: can't find out whether there is an etcd cluster nosuch in namespace ns: can't list EtcdMembers in namespace ns: etcdmembers is refused; ask an administrator",
		},
		"Etcds could have told": {
			objects: aSet, refused: []string{"etcds"}, args: "status nosuch",
			code: 2, stderr: "error: can't find out whether there is an etcd cluster nosuch in namespace ns: can't list Etcds in namespace ns: etcds is refused; ask an administrator",
		},
		"StatefulSets could have told": {
			objects: anEtcd, refused: []string{"statefulsets"}, args: "status sts/nosuch",
			code: 2, stderr: "error: can't find out whether there is an etcd cluster sts/nosuch in namespace ns: can't list StatefulSets in namespace ns: statefulsets is refused; ask an administrator",
		},
		"StatefulSets tell of no Etcd": {
			objects: anEtcd, refused: []string{"statefulsets"}, args: "status etcd/nosuch",
			code: 2, stderr: "error: there is no etcd cluster etcd/nosuch in namespace ns",
		},
		"all was read": {
			objects: anEtcd + aSet, args: "status nosuch",
			code: 2, stderr: "error: there is no etcd cluster nosuch in namespace ns",
		},
		"no EtcdMembers, and Etcds may not be listed": {
			refused: []string{"etcds"}, empty: []string{"etcdmembers"}, args: "status",
			code: 2, stderr: "error: can't list Etcds in namespace ns: etcds is refused; ask an administrator",
		},
		"no Etcds, and EtcdMembers may not be listed": {
			refused: []string{"etcdmembers"}, empty: []string{"etcds"}, args: "status",
			code: 2, stderr: "error: can't list EtcdMembers in namespace ns: etcdmembers is refused; ask an administrator",
		},
		"there are none": {
			empty: []string{"etcds", "etcdmembers"}, args: "status",
			code: 0, stderr: "No resources found in ns namespace.\n",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := listserver.Start(t, tc.objects)
			for _, r := range tc.refused {
				s.Refuse(r, http.StatusForbidden)
			}
			for _, r := range tc.empty {
				s.Refuse(r, 0)
			}
			var stdout, stderr buffer
			code := plugin(t.Context(), s.Kubeconfig(t), &stdout, &stderr, strings.Fields(tc.args)...)
			if code != tc.code || !strings.Contains(stderr.String(), tc.stderr) || strings.Contains(stdout.String()+stderr.String(), "No resources") != strings.HasPrefix(tc.stderr, "No resources") {
				t.Errorf("exit code %d, stdout %q, stderr %q, want %d and %q", code, &stdout, &stderr, tc.code, tc.stderr)
			}
		})
	}
}

// TestWatchThroughAnOutage: a cluster that can't be read any more is not said to be gone.
func TestWatchThroughAnOutage(t *testing.T) {
	for _, args := range []string{"status -w", "status main -w"} {
		t.Run(args, func(t *testing.T) {
			t.Parallel()
			s := listserver.Start(t, anEtcd+etcdsSet())
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var stdout, stderr buffer
			done := make(chan int)
			go func() { done <- plugin(ctx, s.Kubeconfig(t), &stdout, &stderr, strings.Fields(args)...) }()
			stdout.await(t, "etcd/main: ")
			s.Refuse("etcds", http.StatusForbidden)
			stderr.await(t, "etcds is refused; ask an administrator for the right, or choose another user with --context or --as; trying again")
			s.Stop()
			stderr.await(t, "connection refused")
			cancel()
			if code := <-done; code != ExitInterrupted {
				t.Errorf("exit code %d", code)
			}
			for _, never := range []string{"there no more", "there is no", "No resources"} {
				if strings.Contains(stdout.String()+stderr.String(), never) {
					t.Errorf("what could not be read is %q:\n%s\n%s", never, &stdout, &stderr)
				}
			}
		})
	}
}

// TestNamedByItsStatefulSet: an Etcd's StatefulSet names the Etcd's cluster, or itself where Etcds can't be read; and a plain
// StatefulSet's member can be described.
func TestNamedByItsStatefulSet(t *testing.T) {
	tests := map[string]struct {
		objects string
		refused string
		args    string
		stdout  string
	}{
		"the Etcd's":                     {objects: anEtcd + etcdsSet() + aPod, args: "status sts/main -o name", stdout: "etcd.druid.gardener.cloud/main\n"},
		"StatefulSets may not be listed": {objects: anEtcd + etcdsSet() + aPod, refused: "statefulsets", args: "status sts/main -o name", stdout: "etcd.druid.gardener.cloud/main\n"},
		"Etcds may not be listed":        {objects: anEtcd + etcdsSet() + aPod, refused: "etcds", args: "status sts/main -o jsonpath={.metadata.name}{.members[*].name}{.members[*].podStatus.phase}", stdout: "mainmain-0"},
		"a plain one's":                  {objects: aSet + aPod, args: "status main -o name", stdout: "statefulset.apps/main\n"},
		"a plain one's member":           {objects: aSet + aPod, args: "describe main-0", stdout: "sts/main"},
		"a plain one's timeline":         {objects: aSet + aPod, args: "timeline sts/main main-0 -o jsonpath={.kind}", stdout: "TransitionList"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := listserver.Start(t, tc.objects)
			if tc.refused != "" {
				s.Refuse(tc.refused, http.StatusForbidden)
			}
			var stdout, stderr buffer
			if code := plugin(t.Context(), s.Kubeconfig(t), &stdout, &stderr, strings.Fields(tc.args)...); code != 0 || !strings.Contains(stdout.String(), tc.stdout) {
				t.Errorf("exit code %d, stdout %q, stderr %q, want %q", code, &stdout, &stderr, tc.stdout)
			}
		})
	}
}

// TestWatchTellsOnce: what could not be read is told once, and again when it is something else; what was found counts as a change.
func TestWatchTellsOnce(t *testing.T) {
	t.Parallel()
	s := listserver.Start(t, anEtcd+etcdsSet()+aPod)
	s.Refuse("pods", http.StatusForbidden)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var stdout, stderr buffer
	done := make(chan int)
	go func() { done <- plugin(ctx, s.Kubeconfig(t), &stdout, &stderr, "status", "-w") }()
	const refused = "warning: Pods in namespace ns: can't be listed"
	stderr.await(t, refused)
	s.Requests()
	rounds := func(n int) {
		t.Helper()
		for seen := 0; seen < n; time.Sleep(50 * time.Millisecond) {
			for _, r := range s.Requests() {
				if r == "pods in ns" {
					seen++
				}
			}
		}
	}
	rounds(2)
	if n := strings.Count(stderr.String(), refused); n != 1 {
		t.Errorf("it is told %d times:\n%s", n, &stderr)
	}
	s.Refuse("persistentvolumeclaims", http.StatusForbidden)
	stderr.await(t, "warning: PersistentVolumeClaims in namespace ns: can't be listed")
	s.Refuse("pods", 0)
	rounds(2)
	s.Refuse("pods", http.StatusForbidden)
	rounds(2)
	if n := strings.Count(stderr.String(), refused); n != 2 {
		t.Errorf("it was well in between, and is told %d times:\n%s", n, &stderr)
	}
	cancel()
	<-done
}

// TestPageHasItsWarnings: on a terminal they are below the table, where the next page does not leave them behind.
func TestPageHasItsWarnings(t *testing.T) {
	s := listserver.Start(t, anEtcd+etcdsSet()+aPod)
	s.Refuse("pods", http.StatusForbidden)
	var stdout, stderr buffer
	f := &Factory{
		IOStreams: genericiooptions.IOStreams{In: strings.NewReader(""), Out: &stdout, ErrOut: &stderr},
		Config:    genericclioptions.NewConfigFlags(true), Now: time.Now,
	}
	config := s.Kubeconfig(t)
	f.Config.KubeConfig = &config
	o := &statusOptions{readOptions: newReadOptions(f)}
	o.addFlags(pflag.NewFlagSet("test", pflag.ContinueOnError))
	if err := o.readOptions.complete(nil); err != nil {
		t.Fatal(err)
	}
	o.keepWarnings = true
	w := watcher{statusOptions: o, last: map[model.Key]string{}, redraw: true}
	for range 2 {
		if err := w.look(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	pages := strings.Split(stdout.String(), "\x1b[H")
	if len(pages) != 3 || stderr.String() != "" {
		t.Fatalf("%q, stderr %q", pages, &stderr)
	}
	for _, page := range pages[1:] {
		table, warning := strings.Index(page, "etcd/main: "), strings.Index(page, "warning: Pods in namespace ns: can't be listed")
		if table < 0 || warning < table {
			t.Errorf("%q", page)
		}
	}
}

// TestFingerprint: a finding more, or one that is worse, is a change.
func TestFingerprint(t *testing.T) {
	r := func(findings ...health.Finding) string { return fingerprint(health.Report{Findings: findings}) }
	quota := health.Finding{Code: health.DatabaseNearQuota, Severity: health.Warning, Subject: "main-0", Message: "80 %"}
	worse, other, later := quota, quota, quota
	worse.Severity, other.Subject, later.Message = health.Critical, "main-1", "81 %"
	if r() == r(quota) || r(quota) == r(worse) || r(quota) == r(other) {
		t.Error("what was found does not count")
	}
	if r(quota) != r(later) {
		t.Error("numbers in a message are no change")
	}
}
