package source

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"

	"github.com/etcdmember/kubectl-etcdmember/pkg/apis/druid/v1alpha1"
)

// Server reads from a Kubernetes API server.
type Server struct {
	client rest.Interface
	// ChunkSize is how many objects a request asks for. 0: all at once.
	ChunkSize int64
}

// NewServer makes a Server. It sends nothing yet.
func NewServer(cfg *rest.Config) (*Server, error) {
	cfg = rest.CopyConfig(cfg)
	// Raw JSON is decoded here, leniently; the codec is there because the client wants one for error objects.
	cfg.ContentType = "application/json"
	cfg.AcceptContentTypes = "application/json"
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	cfg.NegotiatedSerializer = serializer.WithoutConversionCodecFactory{CodecFactory: serializer.NewCodecFactory(scheme)}
	client, err := rest.UnversionedRESTClientFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("can't make a client for %s: %w", cfg.Host, err)
	}
	return &Server{client: client, ChunkSize: 500}, nil
}

// MissingCRDError says that the server does not know the EtcdMember resource.
type MissingCRDError struct{ Err error }

func (e *MissingCRDError) Error() string {
	return fmt.Sprintf("the server has no resource %s.%s: install it with 'kubectl etcdmember crd install', then 'kubectl etcdmember adopt CLUSTER'",
		v1alpha1.EtcdMemberResource.Resource, v1alpha1.GroupName)
}

func (e *MissingCRDError) Unwrap() error { return e.Err }

// Read reads the EtcdMembers of a namespace, or of all for "", with their heartbeats and workloads. It fails only where the
// EtcdMembers themselves can't be read; the rest becomes problems of the Set.
func (c *Server) Read(ctx context.Context, namespace string) (*Set, error) {
	s := &Set{}
	members := c.list(ctx, "apis/druid.gardener.cloud/v1alpha1", namespace, "etcdmembers", "")
	if err := collect(s, members, &s.members); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, &MissingCRDError{Err: err}
		}
		return nil, fmt.Errorf("can't list EtcdMembers%s: %w", in(namespace), err)
	}
	if len(s.members) == 0 {
		return s, nil
	}
	// The rest is asked for together, and only now: where there are no members, nothing else is worth a request.
	leases := c.list(ctx, "apis/coordination.k8s.io/v1", namespace, "leases", v1alpha1.LabelComponent+"="+v1alpha1.ComponentHeartbeat)
	sets := c.list(ctx, "apis/apps/v1", namespace, "statefulsets", "")
	etcds := c.list(ctx, "apis/druid.gardener.cloud/v1alpha1", namespace, "etcds", "")
	s.leasesRead, s.workloadsRead = true, true
	if err := collect(s, leases, &s.leases); err != nil {
		s.leasesRead = false
		s.problem("Leases"+in(namespace), fmt.Errorf("can't be listed, so whether members are fresh is not known: %w", err))
	}
	if err := collect(s, sets, &s.statefulSets); err != nil {
		s.workloadsRead = false
		s.problem("StatefulSets"+in(namespace), fmt.Errorf("can't be listed, so how many members are wanted is not known: %w", err))
	}
	// Where there is no druid there are no Etcds.
	if err := collect(s, etcds, &s.etcds); err != nil && !apierrors.IsNotFound(err) {
		s.workloadsRead = false
		s.problem("Etcds"+in(namespace), fmt.Errorf("can't be listed, so how many members are wanted is not known: %w", err))
	}
	return s, nil
}

func in(namespace string) string {
	if namespace == "" {
		return " in all namespaces"
	}
	return " in namespace " + namespace
}

// listing is a list that is being read.
type listing struct {
	name  string
	items chan json.RawMessage
	err   error
}

// list starts to read a list. Chunks are decoded while the next one is on its way.
func (c *Server) list(ctx context.Context, prefix, namespace, resource, selector string) *listing {
	l := &listing{name: resource, items: make(chan json.RawMessage, 64)}
	go func() {
		defer close(l.items)
		l.err = c.chunks(ctx, prefix, namespace, resource, selector, l.items)
	}()
	return l
}

func (c *Server) chunks(ctx context.Context, prefix, namespace, resource, selector string, items chan<- json.RawMessage) error {
	next := ""
	for {
		request := c.client.Get().AbsPath("/"+prefix).NamespaceIfScoped(namespace, namespace != "").Resource(resource)
		for name, value := range map[string]string{"labelSelector": selector, "limit": strconv.FormatInt(c.ChunkSize, 10), "continue": next} {
			if value != "" && value != "0" {
				request.Param(name, value)
			}
		}
		result := request.Do(ctx)
		raw, err := result.Raw()
		if err != nil {
			err = result.Error() // says what the server said, which Raw does not
			var status apierrors.APIStatus
			// A long list has outlived the server's compaction: it offers to go on with what is there now.
			if apierrors.IsResourceExpired(err) && errors.As(err, &status) && status.Status().Continue != "" {
				next = status.Status().Continue
				continue
			}
			return err
		}
		var page struct {
			Metadata struct {
				Continue string `json:"continue"`
			} `json:"metadata"`
			Items []json.RawMessage `json:"items"`
		}
		if err := json.Unmarshal(raw, &page); err != nil {
			return fmt.Errorf("the server's list of %s is not JSON: %w", resource, err)
		}
		for _, item := range page.Items {
			select {
			case items <- item:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		if page.Metadata.Continue == "" {
			return nil
		}
		next = page.Metadata.Continue
	}
}

// collect decodes a list to its end.
func collect[T any](s *Set, l *listing, to *[]T) error {
	for raw := range l.items {
		add(s, to, raw, l.name)
	}
	return l.err
}
