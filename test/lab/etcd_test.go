package lab_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/etcdmember/kubectl-etcdmember/test/lab"
)

// One call starts a cluster of any version that the lab has, with TLS, as a user without root; a client reaches each
// member.
func TestEtcdOfEachVersion(t *testing.T) {
	for _, version := range []string{lab.Etcd37, lab.Etcd36, lab.Etcd35, lab.Etcd34} {
		t.Run(version, func(t *testing.T) {
			l := lab.Get(t)
			e := l.StartEtcd(t, l.Namespace(t), lab.EtcdOptions{Version: version, TLS: true})
			c := e.Client(t)
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			leaders := map[uint64]bool{}
			for _, pod := range e.Pods() {
				s, err := c.Status(ctx, e.Endpoint(pod))
				if err != nil {
					t.Fatalf("status of %s: %v", pod, err)
				}
				if !strings.HasPrefix(s.Version, version) {
					t.Errorf("%s runs %s, want %s", pod, s.Version, version)
				}
				leaders[s.Leader] = true
			}
			if len(leaders) != 1 || leaders[0] {
				t.Errorf("members follow leaders %v, want one", leaders)
			}
			e.Etcdctl(t, "put", "greeting", "hello")
			if out := e.EtcdctlIn(t, e.Pod(2), "get", "greeting"); out != "greeting\nhello\n" {
				t.Errorf("etcdctl get printed %q", out)
			}
		})
	}
}
