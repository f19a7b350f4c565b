// Command kubectl-etcdmember is the kubectl plugin 'kubectl etcdmember'.
package main

import (
	"context"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	_ "k8s.io/client-go/plugin/pkg/client/auth" // whatever kubectl can log in with, the plugin can

	"github.com/etcdmember/kubectl-etcdmember/pkg/cli"
)

func main() { os.Exit(run()) }

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	args := os.Args[1:]
	// kubectl completes a plugin by running kubectl_complete-NAME with the words typed so far. krew can't install a second
	// executable, so a symbolic link of that name to this one does.
	if strings.HasPrefix(filepath.Base(os.Args[0]), "kubectl_complete-") {
		args = append([]string{"__complete"}, args...)
	}
	return cli.Main(ctx, cli.NewFactory(), args)
}
