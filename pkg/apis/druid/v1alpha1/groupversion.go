package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupName is etcd-druid's API group. EtcdMember lives in it because DEP-04 puts it there.
const GroupName = "druid.gardener.cloud"

var (
	// GroupVersion is the group and version of the types in this package.
	GroupVersion = schema.GroupVersion{Group: GroupName, Version: "v1alpha1"}
	// EtcdMemberResource addresses EtcdMembers. Other projects have a kind of that name, so it is always used in full.
	EtcdMemberResource = GroupVersion.WithResource("etcdmembers")
	// EtcdMemberTaskResource addresses EtcdMemberTasks.
	EtcdMemberTaskResource = GroupVersion.WithResource("etcdmembertasks")
	// EtcdMemberKind is the kind of EtcdMember.
	EtcdMemberKind = GroupVersion.WithKind("EtcdMember")
	// EtcdMemberTaskKind is the kind of EtcdMemberTask.
	EtcdMemberTaskKind = GroupVersion.WithKind("EtcdMemberTask")

	// SchemeBuilder collects the functions that add this package's types to a scheme.
	SchemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)
	// AddToScheme adds this package's types to a scheme.
	AddToScheme = SchemeBuilder.AddToScheme
)

func addKnownTypes(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion,
		&EtcdMember{}, &EtcdMemberList{},
		&EtcdMemberTask{}, &EtcdMemberTaskList{},
	)
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
