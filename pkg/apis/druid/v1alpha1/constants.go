package v1alpha1

// Labels of an EtcdMember and of what belongs to it. The first four are etcd-druid's own conventions
// (api/core/v1alpha1/constants.go there); LabelOwnedBy is DEP-04's.
const (
	// LabelPartOf names the cluster: the Etcd or the StatefulSet.
	LabelPartOf = "app.kubernetes.io/part-of"
	// LabelManagedBy names who created the object.
	LabelManagedBy = "app.kubernetes.io/managed-by"
	// LabelComponent tells one kind of a cluster's objects from another.
	LabelComponent = "app.kubernetes.io/component"
	// LabelOwnedBy names the cluster too, as DEP-04 asks for it.
	LabelOwnedBy = "gardener.cloud/owned-by"

	// ManagedBy is LabelManagedBy's value on what this project creates.
	ManagedBy = "kubectl-etcdmember"
	// ComponentMember is LabelComponent's value on an EtcdMember.
	ComponentMember = "etcd-member"
	// ComponentHeartbeat is LabelComponent's value on an EtcdMember's heartbeat Lease.
	ComponentHeartbeat = "etcd-member-heartbeat"
)

// Field managers of server-side apply: one writer, one name, so that what each owns can be told apart and released.
const (
	// FieldManagerCLI is the plugin's default; --field-manager changes it.
	FieldManagerCLI = "kubectl-etcdmember"
	// FieldManagerAgent is the agent's.
	FieldManagerAgent = "etcdmember-agent"
	// FieldManagerController is the controller's, but for its observer.
	FieldManagerController = "etcdmember-controller"
	// FieldManagerObserver is the controller's for members that have no agent.
	FieldManagerObserver = "etcdmember-observer"
)

// AnnotationCreateAsLearner asks a new member to join as a learner on scale-up (DEP-04). It is removed on promotion.
const AnnotationCreateAsLearner = "druid.gardener.cloud/create-as-learner"

// FinalizerTask keeps an EtcdMember while an unfinished EtcdMemberTask names it.
const FinalizerTask = "druid.gardener.cloud/etcd-member-task"

// HeartbeatLeasePrefix and a member's name make the name of the Lease that its agent renews.
const HeartbeatLeasePrefix = "etcdmember-"

// HeartbeatLeaseName is the name of the Lease that the agent of the member renews.
func HeartbeatLeaseName(member string) string { return HeartbeatLeasePrefix + member }
