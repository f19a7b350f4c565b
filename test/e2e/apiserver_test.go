package e2e

import (
	"testing"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/etcdmember/kubectl-etcdmember/test/apiserver"
)

// apiServer is an API server that a test has to itself.
type apiServer struct {
	config     *rest.Config
	kubeconfig string
	dynamic    dynamic.Interface
}

// contextName is the kubeconfig's current context, which is what a person types to confirm.
const contextName = apiserver.ContextName

// startAPIServer starts an API server that ends with the test.
func startAPIServer(t *testing.T) *apiServer {
	t.Helper()
	s := apiserver.Start(t)
	return &apiServer{config: s.Config, kubeconfig: s.Kubeconfig, dynamic: s.Dynamic}
}
