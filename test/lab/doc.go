// Package lab gives tests a real Kubernetes with real etcd in it, on this machine, and faults to do to them.
//
// Mocks agree with whoever wrote them. What this project must not get wrong, such as quorum arithmetic under a stale cache, a claim
// that is bound while it is being deleted, a port-forward that hangs, a disk that is full, is decided by Kubernetes and
// etcd themselves, so tests run against these.
//
//	func TestMain(m *testing.M) { lab.Main(m) }
//
//	func TestSomething(t *testing.T) {
//		l := lab.Get(t)
//		e := l.StartEtcd(t, l.Namespace(t), lab.EtcdOptions{TLS: true})
//		l.Freeze(t, e.Namespace, e.Pod(0), lab.EtcdContainer)
//		…
//	}
//
// The lab is started by the first test that asks for it and stays up, so that the next run begins at once; `make
// lab-down` ends it. Where it can't be had, tests fail and say why; they never skip. Faults and namespaces are undone
// when the test ends.
//
// With KUBECONFIG set, and ETCDMEMBER_LAB not set to 1, tests use that cluster instead. Faults need the lab, because
// they reach below Kubernetes; tests that do harm fail there with a message that says so.
//
// The lab was made for, and is tested on, Debian 12 with cgroup v1 and containerd 1.6. Its code for cgroup v2 has never
// run, nor has any of it on another distribution.
package lab
