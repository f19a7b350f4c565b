package source

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/etcdmember/kubectl-etcdmember/pkg/apis/druid/v1alpha1"
	"github.com/etcdmember/kubectl-etcdmember/pkg/model"
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

// MissingCRDError says that the server knows neither the EtcdMember resource nor druid's Etcd.
type MissingCRDError struct{ Err error }

func (e *MissingCRDError) Error() string {
	return fmt.Sprintf("the server has no resource %s.%s and no etcds of etcd-druid: name a StatefulSet of etcd (sts/NAME, with --live), or install the resource with 'kubectl etcdmember crd install', then 'kubectl etcdmember adopt CLUSTER'",
		v1alpha1.EtcdMemberResource.Resource, v1alpha1.GroupName)
}

func (e *MissingCRDError) Unwrap() error { return e.Err }

// ReadOptions say how much is read.
type ReadOptions struct {
	// Namespace is read; "" is all of them.
	Namespace string
	// StatefulSets are named by somebody, to be read as etcd clusters although no EtcdMember and no Etcd says that they are.
	StatefulSets []model.Key
	// Pods asks for pods and claims of all clusters. Without it they are read only of clusters whose members don't all
	// publish, which is where they tell something that is not known better.
	Pods bool
	// Volumes asks for the PersistentVolumes of the claims that are read.
	Volumes bool
	// Now is the time to judge by which members publish.
	Now time.Time
}

// Read reads EtcdMembers, druid's Etcds, and what belongs to them. It fails where the server can't be reached, where the
// context ends, and where nothing was found and a list that could have told of clusters can't be read; what else can't be
// read becomes a problem of the Set.
func (c *Server) Read(ctx context.Context, o ReadOptions) (*Set, error) {
	s := &Set{at: o.Now, podsRead: map[model.Key]bool{}, claimsRead: map[model.Key]bool{}}
	where := in(o.Namespace)
	// All at once: a person waits for the slowest and not for the sum. Where there turn out to be no members, what else was
	// asked for is dropped.
	ctx, cancel := context.WithCancel(klog.NewContext(ctx, klog.New(quiet{klog.FromContext(ctx).GetSink()})))
	defer cancel()
	members := c.list(ctx, apiDruid, o.Namespace, "etcdmembers", "")
	etcds := c.list(ctx, apiDruid, o.Namespace, "etcds", "")
	tasks := c.list(ctx, apiDruid, o.Namespace, "etcdopstasks", "")
	leases := c.listLeases(ctx, o.Namespace, fmt.Sprintf("%s in (%s,%s,%s)", v1alpha1.LabelComponent, v1alpha1.ComponentHeartbeat, componentMemberLease, componentSnapshotLease))
	sets := c.listStatefulSets(ctx, o.Namespace)
	membersErr := collect(s, members, &s.members)
	if lost(membersErr) {
		return nil, fmt.Errorf("can't list EtcdMembers%s: %w", where, membersErr)
	}
	etcdsErr := collect(s, etcds, &s.etcds)
	if lost(etcdsErr) {
		return nil, fmt.Errorf("can't list Etcds%s: %w", where, etcdsErr)
	}
	// Where there is no druid there are no Etcds, and where our resource is not installed no EtcdMembers: both are usual.
	if membersErr != nil && !apierrors.IsNotFound(membersErr) {
		s.unlist(kindEtcdMember, fmt.Errorf("can't list EtcdMembers%s: %w", where, membersErr))
		s.problem("EtcdMembers"+where, fmt.Errorf("can't be listed, so what members publish is not known: %w", membersErr))
	}
	workloads := true
	if etcdsErr != nil && !apierrors.IsNotFound(etcdsErr) {
		workloads = false
		s.unlist(string(model.KindEtcd), fmt.Errorf("can't list Etcds%s: %w", where, etcdsErr))
		s.problem("Etcds"+where, fmt.Errorf("can't be listed, so what druid knows, and how many members are wanted, is not known: %w", etcdsErr))
	}
	if len(s.members) == 0 && len(s.etcds) == 0 && len(o.StatefulSets) == 0 {
		switch {
		case len(s.unlisted) > 0: // that there are no clusters is not known
			return nil, s.unlisted[0].err
		case membersErr != nil && etcdsErr != nil:
			return nil, &MissingCRDError{Err: membersErr}
		}
		return s, nil
	}
	s.leasesRead, s.workloadsRead = true, workloads
	var err error
	if s.leases, err = leases.wait(); lost(err) {
		return nil, fmt.Errorf("can't list Leases%s: %w", where, err)
	} else if err != nil {
		s.leasesRead = false
		s.problem("Leases"+where, fmt.Errorf("can't be listed, so whether members are fresh is not known: %w", err))
	}
	if s.statefulSets, err = sets.wait(); lost(err) {
		return nil, fmt.Errorf("can't list StatefulSets%s: %w", where, err)
	} else if err != nil {
		s.workloadsRead = false
		s.unlist(string(model.KindStatefulSet), fmt.Errorf("can't list StatefulSets%s: %w", where, err))
		s.problem("StatefulSets"+where, fmt.Errorf("can't be listed, so how many members are wanted is not known: %w", err))
	}
	if len(s.members) == 0 && len(s.etcds) == 0 && len(s.statefulSets) == 0 && len(s.unlisted) > 0 {
		return nil, s.unlisted[0].err
	}
	if len(s.etcds) > 0 {
		// druid knew no EtcdOpsTasks for most of its life.
		if err := collect(s, tasks, &s.tasks); lost(err) {
			return nil, fmt.Errorf("can't list EtcdOpsTasks%s: %w", where, err)
		} else if err != nil && !apierrors.IsNotFound(err) {
			s.problem("EtcdOpsTasks"+where, fmt.Errorf("can't be listed, so what druid is doing is not known: %w", err))
		}
	}
	if err := c.readPods(ctx, s, o); err != nil {
		return nil, err
	}
	return s, nil
}

// lostError is the error of a request that the server has not answered.
type lostError struct{ error }

func (e *lostError) Unwrap() error { return e.error }

// lost says whether a list failed because the server did not answer, or because the context ended. Then nothing is known of
// what is there, as opposed to where the server has answered that the list is forbidden, say.
func lost(err error) bool {
	var e *lostError
	return errors.As(err, &e) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// quiet logs no errors: the client logs those that it returns as well, also of requests that were dropped.
type quiet struct{ klog.LogSink }

func (quiet) Error(error, string, ...any) {}

func (q quiet) WithValues(values ...any) klog.LogSink { return quiet{q.LogSink.WithValues(values...)} }

func (q quiet) WithName(name string) klog.LogSink { return quiet{q.LogSink.WithName(name)} }

const (
	apiCore         = "api/v1"
	apiDruid        = "apis/druid.gardener.cloud/v1alpha1"
	apiCoordination = "apis/coordination.k8s.io/v1"
	apiApps         = "apis/apps/v1"
)

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
	return c.pages(ctx, prefix, namespace, resource, selector, "application/json", func(raw []byte) (string, error) {
		var page struct {
			Metadata struct {
				Continue string `json:"continue"`
			} `json:"metadata"`
			Items []json.RawMessage `json:"items"`
		}
		if err := json.Unmarshal(raw, &page); err != nil {
			return "", fmt.Errorf("the server's list of %s is not JSON: %w", resource, err)
		}
		for _, item := range page.Items {
			select {
			case items <- item:
			case <-ctx.Done():
				return "", ctx.Err()
			}
		}
		return page.Metadata.Continue, nil
	})
}

// pages reads a list page by page. take is given each, and returns where the next one begins; "" is the end.
func (c *Server) pages(ctx context.Context, prefix, namespace, resource, selector, accept string, take func(raw []byte) (next string, err error)) error {
	next := ""
	for {
		request := c.client.Get().AbsPath("/"+prefix).NamespaceIfScoped(namespace, namespace != "").Resource(resource).SetHeader("Accept", accept)
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
			if !errors.As(err, &status) {
				return &lostError{err}
			}
			return err
		}
		if next, err = take(raw); err != nil || next == "" {
			return err
		}
	}
}

// collect decodes a list to its end.
func collect[T any](s *Set, l *listing, to *[]T) error {
	for raw := range l.items {
		add(s, to, raw, l.name)
	}
	return l.err
}
