package images

import "github.com/etcdmember/kubectl-etcdmember/test/lab/internal/build"

// The references of the lab's images. The registry's name can't be resolved, so that a node that lacks an image says so
// instead of asking somebody else for it.
const (
	Registry   = "etcdmember.local"
	Pause      = Registry + "/pause:1"
	Agent      = Registry + "/agent:dev"
	Controller = Registry + "/controller:dev"
)

// Etcd is the reference of an etcd version ("3.7.3").
func Etcd(version string) string { return Registry + "/etcd:" + version }

// EtcdSpec is the image of an etcd. Version 3.4 has no etcdutl.
func EtcdSpec(b build.Built) Spec {
	s := Spec{Ref: Etcd(b.Version), Files: map[string]string{}, Entrypoint: []string{"/usr/local/bin/etcd"}}
	for _, name := range []string{"etcd", "etcdctl", "etcdutl"} {
		if b.Has(name) {
			s.Files["/usr/local/bin/"+name] = b.Path(name)
		}
	}
	return s
}

// Single is the image of one binary, which is its entry point.
func Single(ref, name, path string) Spec {
	in := "/usr/local/bin/" + name
	return Spec{Ref: ref, Files: map[string]string{in: path}, Entrypoint: []string{in}}
}
