package source

import (
	"context"
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Kinds of Kubernetes' own are read from a server as protobuf, which costs it and us a fraction of what JSON does: a Lease
// and a StatefulSet come with every cluster of a long list. What others may have written is read as JSON, leniently.

// protobufType is what a server is asked for; one that does not speak it answers in JSON, which is an error here.
const protobufType = "application/vnd.kubernetes.protobuf"

// unmarshaler is a generated type.
type unmarshaler interface{ Unmarshal([]byte) error }

// protobufPrefix is before each object in protobuf (k8s.io/apimachinery/pkg/runtime/serializer/protobuf).
const protobufPrefix = "k8s\x00"

func unmarshalProtobuf(raw []byte, into unmarshaler) error {
	if len(raw) < len(protobufPrefix) || string(raw[:len(protobufPrefix)]) != protobufPrefix {
		return errors.New("the server's answer is not in protobuf, which it was asked for")
	}
	var u runtime.Unknown
	if err := u.Unmarshal(raw[len(protobufPrefix):]); err != nil {
		return fmt.Errorf("the server's answer can't be read: %w", err)
	}
	if err := into.Unmarshal(u.Raw); err != nil {
		return fmt.Errorf("the server's answer can't be read: %w", err)
	}
	return nil
}

// typedListing is a list of one of Kubernetes' own kinds that is being read.
type typedListing[T any] struct {
	done  chan struct{}
	items []T
	err   error
}

// listLeases starts to read Leases.
func (c *Server) listLeases(ctx context.Context, namespace, selector string) *typedListing[leaseObject] {
	return listTyped(ctx, c, apiCoordination, namespace, "leases", selector, func(raw []byte) ([]leaseObject, string, error) {
		var list coordinationv1.LeaseList
		if err := unmarshalProtobuf(raw, &list); err != nil {
			return nil, "", err
		}
		objects := make([]leaseObject, len(list.Items))
		for i := range list.Items {
			from := &list.Items[i]
			o := &objects[i]
			o.Metadata = typedMeta(&from.ObjectMeta)
			o.Spec.OK = true
			if from.Spec.HolderIdentity != nil {
				o.Spec.Value.HolderIdentity = given(*from.Spec.HolderIdentity)
			}
			if from.Spec.RenewTime != nil {
				o.Spec.Value.RenewTime = given(instant(from.Spec.RenewTime.Time))
			}
		}
		return objects, list.Continue, nil
	})
}

// listStatefulSets starts to read StatefulSets.
func (c *Server) listStatefulSets(ctx context.Context, namespace string) *typedListing[statefulSetObject] {
	return listTyped(ctx, c, apiApps, namespace, "statefulsets", "", func(raw []byte) ([]statefulSetObject, string, error) {
		var list appsv1.StatefulSetList
		if err := unmarshalProtobuf(raw, &list); err != nil {
			return nil, "", err
		}
		objects := make([]statefulSetObject, len(list.Items))
		for i := range list.Items {
			typedStatefulSet(&list.Items[i], &objects[i])
		}
		return objects, list.Continue, nil
	})
}

func typedStatefulSet(from *appsv1.StatefulSet, o *statefulSetObject) {
	o.Metadata = typedMeta(&from.ObjectMeta)
	o.Spec.OK = true
	spec := &o.Spec.Value
	if from.Spec.Replicas != nil {
		spec.Replicas = given(number(*from.Spec.Replicas))
	}
	if from.Spec.Ordinals != nil {
		spec.Ordinals.Value.Start = given(number(from.Spec.Ordinals.Start))
	}
	spec.ServiceName = given(from.Spec.ServiceName)
	spec.PodManagementPolicy = given(string(from.Spec.PodManagementPolicy))
	spec.UpdateStrategy.Value.Type = given(string(from.Spec.UpdateStrategy.Type))
	if from.Spec.Selector != nil {
		spec.Selector.Value.MatchLabels = given(from.Spec.Selector.MatchLabels)
	}
	spec.Template.Value.Spec.Value.Containers = typedContainers(from.Spec.Template.Spec.Containers)
	spec.VolumeClaimTemplates.Value = make([]claimTemplate, len(from.Spec.VolumeClaimTemplates))
	for i := range from.Spec.VolumeClaimTemplates {
		spec.VolumeClaimTemplates.Value[i].Value.Metadata.Name = given(from.Spec.VolumeClaimTemplates[i].Name)
	}
	st := &o.Status.Value
	st.ObservedGeneration = lax[number]{Value: number(from.Status.ObservedGeneration), OK: from.Status.ObservedGeneration > 0}
	st.ReadyReplicas = given(number(from.Status.ReadyReplicas))
	st.CurrentRevision, st.UpdateRevision = given(from.Status.CurrentRevision), given(from.Status.UpdateRevision)
}

func typedContainers(from []corev1.Container) lax[[]lax[container]] {
	containers := make([]lax[container], len(from))
	for i := range from {
		f, c := &from[i], &containers[i].Value
		c.Name, c.Command, c.Args = given(f.Name), given(f.Command), given(f.Args)
		c.Env.Value = make([]lax[envVar], len(f.Env))
		for j, e := range f.Env {
			c.Env.Value[j].Value = envVar{Name: given(e.Name), Value: given(e.Value)}
		}
		c.Ports.Value = make([]lax[containerPort], len(f.Ports))
		for j, p := range f.Ports {
			c.Ports.Value[j].Value = containerPort{Name: given(p.Name), ContainerPort: given(number(p.ContainerPort))}
		}
	}
	return given(containers)
}

func typedMeta(from *metav1.ObjectMeta) objectMeta {
	m := objectMeta{
		Name: given(from.Name), Namespace: given(from.Namespace), UID: given(string(from.UID)),
		ResourceVersion: given(from.ResourceVersion), Labels: given(from.Labels),
		Annotations: given(from.Annotations), Generation: given(number(from.Generation)), CreationTimestamp: given(instant(from.CreationTimestamp.Time)),
	}
	if from.DeletionTimestamp != nil {
		m.DeletionTimestamp = given(instant(from.DeletionTimestamp.Time))
	}
	for _, r := range from.OwnerReferences {
		m.OwnerReferences.Value = append(m.OwnerReferences.Value, ownerReference{
			APIVersion: r.APIVersion, Kind: r.Kind, Name: r.Name, UID: string(r.UID), Controller: r.Controller != nil && *r.Controller,
		})
	}
	return m
}

// given is a field that is there.
func given[T any](v T) lax[T] { return lax[T]{Value: v, OK: true} }

func listTyped[T any](ctx context.Context, c *Server, prefix, namespace, resource, selector string, decode func([]byte) ([]T, string, error)) *typedListing[T] {
	l := &typedListing[T]{done: make(chan struct{})}
	go func() {
		defer close(l.done)
		l.err = c.pages(ctx, prefix, namespace, resource, selector, protobufType, func(raw []byte) (string, error) {
			objects, next, err := decode(raw)
			l.items = append(l.items, objects...)
			return next, err
		})
	}()
	return l
}

// wait returns all that was read.
func (l *typedListing[T]) wait() ([]T, error) {
	<-l.done
	return l.items, l.err
}
