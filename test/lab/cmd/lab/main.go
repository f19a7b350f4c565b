// Command lab runs a real Kubernetes with real etcd on one machine, for tests and demos. See test/lab/README.md.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/etcdmember/kubectl-etcdmember/test/lab/internal/cluster"
	"github.com/etcdmember/kubectl-etcdmember/test/lab/internal/control"
	"github.com/etcdmember/kubectl-etcdmember/test/lab/internal/launch"
	"github.com/etcdmember/kubectl-etcdmember/test/lab/internal/layout"
	"github.com/etcdmember/kubectl-etcdmember/test/lab/internal/sandbox"
	"github.com/etcdmember/kubectl-etcdmember/test/lab/internal/storage"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := newCommand().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "lab:", err)
		os.Exit(1)
	}
}

func newCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "lab",
		Short:         "A real Kubernetes with real etcd on one machine",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(newBuild(), newUp(), newDown(), newStatus(), newEnv(), newExec(), newLogs(), newImages(), newFault(), newSandbox())
	return root
}

// open finds the lab that the environment asks for, and the checkout if there is one.
func open() (*launch.Launcher, error) {
	l, err := layout.Default()
	if err != nil {
		return nil, err
	}
	return launch.New(l, os.Stderr), nil
}

func client() (control.Client, error) {
	l, err := layout.Default()
	if err != nil {
		return control.Client{}, err
	}
	return control.Client{Socket: l.Socket()}, nil
}

// newSandbox has the commands by which the lab runs itself.
func newSandbox() *cobra.Command {
	hidden := &cobra.Command{Use: "sandbox", Hidden: true, Short: "The lab's own processes"}
	hidden.AddCommand(
		&cobra.Command{Use: "supervise DIR CACHE", Args: cobra.ExactArgs(2), RunE: func(cmd *cobra.Command, args []string) error {
			l, err := layout.New(args[0], args[1])
			if err != nil {
				return err
			}
			return sandbox.Supervise(cmd.Context(), l)
		}},
		&cobra.Command{Use: "init CONFIG", Args: cobra.ExactArgs(1), RunE: func(_ *cobra.Command, args []string) error {
			return sandbox.Init(args[0])
		}},
		&cobra.Command{Use: "manage CONFIG", Args: cobra.ExactArgs(1), RunE: func(cmd *cobra.Command, args []string) error {
			return cluster.Manage(cmd.Context(), args[0])
		}},
		newVolumes(),
	)
	return hidden
}

func newVolumes() *cobra.Command {
	var kubeconfig, dir string
	cmd := &cobra.Command{Use: "volumes", Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error {
		return storage.Run(cmd.Context(), kubeconfig, dir)
	}}
	cmd.Flags().StringVar(&kubeconfig, "kubeconfig", "", "of the cluster")
	cmd.Flags().StringVar(&dir, "dir", "", "where volumes are kept")
	return cmd
}
