// Package listserver is a Kubernetes API server that knows nothing but lists, for tests of what is asked for, and of what is
// said where a list is refused. What needs a real one has package apiserver.
package listserver

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

// Server answers with the objects that it was given.
type Server struct {
	URL string

	mu       sync.Mutex
	objects  map[string][]map[string]any // by resource
	refused  map[string]int
	before   map[string]func()
	requests []string
	server   *httptest.Server
}

// Start starts a server of objects in YAML. It stops when the test ends. Resources of which there is no object, and that are
// not Kubernetes' own, are not installed.
func Start(t testing.TB, objects string) *Server {
	t.Helper()
	s := &Server{objects: map[string][]map[string]any{}, refused: map[string]int{}, before: map[string]func(){}}
	s.Set(t, objects)
	s.server = httptest.NewServer(s)
	s.URL = s.server.URL
	t.Cleanup(s.Stop)
	return s
}

// Stop stops the server: nobody listens any more.
func (s *Server) Stop() { s.server.Close() }

// Set replaces the objects.
func (s *Server) Set(t testing.TB, objects string) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.objects)
	for _, document := range strings.Split(objects, "\n---\n") {
		var o map[string]any
		if err := yaml.Unmarshal([]byte(document), &o); err != nil {
			t.Fatalf("%v: %s", err, document)
		}
		if kind, _ := o["kind"].(string); kind != "" {
			resource := strings.ToLower(kind) + "s"
			s.objects[resource] = append(s.objects[resource], o)
		}
	}
}

// Refuse answers with an HTTP status to lists of a resource, or for "pods in all namespaces" to that one alone. 0 answers with
// objects again, and with none also where the resource was not installed.
func (s *Server) Refuse(list string, status int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refused[list] = status
}

// Before calls a function when a list of a resource is asked for, and then does not answer until the client has gone.
func (s *Server) Before(resource string, do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.before[resource] = do
}

// Requests are the lists that were asked for since it was last called, sorted: "pods in ns", "pods in all namespaces".
func (s *Server) Requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	requests := s.requests
	s.requests = nil
	slices.Sort(requests)
	return requests
}

// Kubeconfig writes a kubeconfig and returns the file's name.
func (s *Server) Kubeconfig(t testing.TB) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	config := fmt.Sprintf("{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, namespace: ns}}], clusters: [{name: c, cluster: {server: %q}}]}", s.URL)
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// ServeHTTP answers a request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	resource, namespace, where := parts[len(parts)-1], "", "all namespaces"
	if i := slices.Index(parts, "namespaces"); i >= 0 && i+1 < len(parts) {
		namespace = parts[i+1]
		where = namespace
	}
	s.mu.Lock()
	before := s.before[resource]
	s.mu.Unlock()
	if before != nil {
		before()
		<-r.Context().Done()
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, resource+" in "+where)
	status, told := s.refused[resource+" in "+where]
	if !told {
		status, told = s.refused[resource]
	}
	all, installed := s.objects[resource]
	if !told && !installed && strings.Contains(r.URL.Path, "druid") {
		status = http.StatusNotFound
	}
	if status != 0 {
		refuse(w, status, resource)
		return
	}
	selector, err := labels.Parse(r.URL.Query().Get("labelSelector"))
	if err != nil {
		refuse(w, http.StatusBadRequest, resource)
		return
	}
	list := map[string]any{"apiVersion": "v1", "kind": "List", "metadata": map[string]any{}}
	items := []any{}
	for _, o := range all {
		var meta struct {
			Metadata struct {
				Namespace string            `json:"namespace"`
				Labels    map[string]string `json:"labels"`
			} `json:"metadata"`
		}
		convert(o, &meta)
		if (namespace == "" || namespace == meta.Metadata.Namespace) && selector.Matches(labels.Set(meta.Metadata.Labels)) {
			items = append(items, o)
		}
	}
	list["items"] = items
	switch resource {
	case "leases":
		answer(w, list, &coordinationv1.LeaseList{})
	case "statefulsets":
		answer(w, list, &appsv1.StatefulSetList{})
	default:
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(list)
	}
}

func refuse(w http.ResponseWriter, status int, resource string) {
	reasons := map[int]string{http.StatusForbidden: "Forbidden", http.StatusNotFound: "NotFound", http.StatusBadRequest: "BadRequest"}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{
		"apiVersion": "v1", "kind": "Status", "status": "Failure", "code": status, "reason": reasons[status],
		"message": resource + " is refused",
	})
}

// answer answers in protobuf.
func answer(w http.ResponseWriter, list any, typed interface{ Marshal() ([]byte, error) }) {
	convert(list, typed)
	raw, err := typed.Marshal()
	if err == nil {
		raw, err = (&runtime.Unknown{Raw: raw}).Marshal()
	}
	if err != nil {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/vnd.kubernetes.protobuf")
	_, _ = w.Write(append([]byte("k8s\x00"), raw...))
}

// convert reads a value as another type. What does not fit is left out.
func convert(from, to any) {
	raw, err := json.Marshal(from)
	if err == nil {
		_ = json.Unmarshal(raw, to)
	}
}
