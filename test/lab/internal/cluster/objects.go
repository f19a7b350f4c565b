package cluster

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/etcdmember/kubectl-etcdmember/test/lab/internal/storage"
)

// apply makes the objects that a cluster is expected to come with: DNS and storage classes.
func (m *Manager) apply(ctx context.Context) error {
	create := metav1.CreateOptions{}
	role := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "system:coredns"},
		Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"endpoints", "services", "pods", "namespaces"}, Verbs: []string{"list", "watch"}},
			{APIGroups: []string{"discovery.k8s.io"}, Resources: []string{"endpointslices"}, Verbs: []string{"list", "watch"}},
		},
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role.Name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "system:coredns"}},
	}
	var failed error
	did := func(_ any, err error) {
		if err != nil && !apierrors.IsAlreadyExists(err) {
			failed = errors.Join(failed, fmt.Errorf("making the cluster's own objects: %w", err))
		}
	}
	// Retried, for the API server is ready a moment before its namespaces exist.
	return until(ctx, "the cluster's own objects exist", func(ctx context.Context) error {
		failed = nil
		did(m.client.RbacV1().ClusterRoles().Create(ctx, role, create))
		did(m.client.RbacV1().ClusterRoleBindings().Create(ctx, binding, create))
		did(m.client.CoreV1().Services(metav1.NamespaceSystem).Create(ctx, dnsService(), create))
		did(m.client.DiscoveryV1().EndpointSlices(metav1.NamespaceSystem).Create(ctx, dnsEndpoints(), create))
		for _, c := range storage.Classes() {
			did(m.client.StorageV1().StorageClasses().Create(ctx, &c, create))
		}
		return failed
	})
}

const dnsName = "kube-dns"

func dnsService() *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: dnsName, Labels: map[string]string{"k8s-app": dnsName}},
		Spec: corev1.ServiceSpec{
			ClusterIP: dnsAddress,
			Ports: []corev1.ServicePort{
				{Name: "dns", Port: 53, TargetPort: intstr.FromInt32(53), Protocol: corev1.ProtocolUDP},
				{Name: "dns-tcp", Port: 53, TargetPort: intstr.FromInt32(53), Protocol: corev1.ProtocolTCP},
			},
		},
	}
}

func dnsEndpoints() *discoveryv1.EndpointSlice {
	port, udp, tcp, dns, dnsTCP, ready := int32(53), corev1.ProtocolUDP, corev1.ProtocolTCP, "dns", "dns-tcp", true
	return &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: dnsName, Labels: map[string]string{discoveryv1.LabelServiceName: dnsName, discoveryv1.LabelManagedBy: "etcdmember-lab"}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{hostAddress}, Conditions: discoveryv1.EndpointConditions{Ready: &ready}}},
		Ports:       []discoveryv1.EndpointPort{{Name: &dns, Port: &port, Protocol: &udp}, {Name: &dnsTCP, Port: &port, Protocol: &tcp}},
	}
}
