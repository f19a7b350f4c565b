// Package v1alpha1 holds the API types of group druid.gardener.cloud that this project adds to etcd-druid's own:
// EtcdMember, the published state of one member of an etcd cluster (etcd-druid proposal DEP-04), and
// EtcdMemberTask, one operation on one cluster.
//
// Two rules run through both. Whoever knows a fact writes it: a member's state comes from the agent beside it, or
// from an observer that says that it is one. And what is not known is absent: no field has a default that could be
// mistaken for an observation.
//
// +kubebuilder:object:generate=true
// +groupName=druid.gardener.cloud
package v1alpha1
