package cli

import (
	"strings"
	"testing"

	"github.com/etcdmember/kubectl-etcdmember/pkg/model"
)

func TestParseClusterArg(t *testing.T) {
	for _, tc := range []struct {
		arg  string
		kind model.Kind
		name string
		err  string
	}{
		{arg: "main", name: "main"},
		{arg: "etcd-main.with.dots-0", name: "etcd-main.with.dots-0"},
		{arg: "etcd/main", kind: model.KindEtcd, name: "main"},
		{arg: "Etcd/main", kind: model.KindEtcd, name: "main"},
		{arg: "etcds/main", kind: model.KindEtcd, name: "main"},
		{arg: "etcd.druid.gardener.cloud/main", kind: model.KindEtcd, name: "main"},
		{arg: "etcds.druid.gardener.cloud/main", kind: model.KindEtcd, name: "main"},
		{arg: "etcds.v1alpha1.druid.gardener.cloud/main", kind: model.KindEtcd, name: "main"},
		{arg: "sts/main", kind: model.KindStatefulSet, name: "main"},
		{arg: "StatefulSet/main", kind: model.KindStatefulSet, name: "main"},
		{arg: "statefulset/main", kind: model.KindStatefulSet, name: "main"},
		{arg: "statefulsets/main", kind: model.KindStatefulSet, name: "main"},
		{arg: "statefulset.apps/main", kind: model.KindStatefulSet, name: "main"},
		{arg: "statefulsets.v1.apps/main", kind: model.KindStatefulSet, name: "main"},
		{arg: "", err: "the name is missing"},
		{arg: "etcd/", err: "the name is missing"},
		{arg: "/main", err: `there is no kind of cluster ""`},
		{arg: "pod/main", err: `there is no kind of cluster "pod"; write NAME, etcd/NAME or sts/NAME`},
		{arg: "etcd.operator.etcd.io/main", err: `there is no kind of cluster "etcd.operator.etcd.io"`},
		{arg: "etcd/main/0", err: "a lowercase RFC 1123 subdomain must consist of"},
		{arg: "Main", err: "a lowercase RFC 1123 subdomain must consist of"},
		{arg: "ma\x1b[31min", err: "a lowercase RFC 1123 subdomain must consist of"},
		{arg: strings.Repeat("a", 254), err: "must be no more than 253"},
	} {
		t.Run(tc.arg, func(t *testing.T) {
			kind, name, err := parseClusterArg(tc.arg)
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Fatalf("parseClusterArg(%q) = %q, %q, error %v; want an error with %q", tc.arg, kind, name, err, tc.err)
				}
				return
			}
			if err != nil || kind != tc.kind || name != tc.name {
				t.Fatalf("parseClusterArg(%q) = %q, %q, %v; want %q, %q", tc.arg, kind, name, err, tc.kind, tc.name)
			}
		})
	}
}
