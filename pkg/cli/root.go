// Package cli is the plugin's commands: one file a command, each with its options, which are completed, validated and
// run. It imports no controller-runtime: the plugin starts fast and stays small.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/cli-runtime/pkg/printers"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/etcdmember/kubectl-etcdmember/pkg/printer"
	"github.com/etcdmember/kubectl-etcdmember/pkg/version"
)

// Factory is what every command is made with: where it reads and writes, how it reaches a cluster, and what time it is.
type Factory struct {
	genericiooptions.IOStreams
	// Config are kubectl's flags for reaching a cluster.
	Config *genericclioptions.ConfigFlags
	// Now is the clock.
	Now func() time.Time
}

// RESTConfig returns the configuration for reaching the cluster.
func (f *Factory) RESTConfig() (*rest.Config, error) {
	cfg, err := f.Config.ToRESTConfig()
	if err != nil {
		return nil, fmt.Errorf("can't find out how to reach a cluster: %w; see --kubeconfig and --context, or read files with -f", err)
	}
	cfg.UserAgent = "kubectl-etcdmember/" + version.Version
	// A person's few requests are not to be slowed down by the client; the server has priority and fairness.
	cfg.QPS, cfg.Burst = 50, 300
	cfg.WarningHandler = rest.NewWarningWriter(f.ErrOut, rest.WarningWriterOptions{Deduplicate: true, Color: printers.AllowsColorOutput(f.ErrOut)})
	return cfg, nil
}

// Dynamic returns a client for any kind of object.
func (f *Factory) Dynamic() (dynamic.Interface, error) {
	cfg, err := f.RESTConfig()
	if err != nil {
		return nil, err
	}
	c, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("can't make a client for %s: %w", cfg.Host, err)
	}
	return c, nil
}

// Namespace returns the namespace of --namespace, or of the kubeconfig's context.
func (f *Factory) Namespace() (string, error) {
	ns, _, err := f.Config.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return "", fmt.Errorf("can't find out the namespace: %w", err)
	}
	return ns, nil
}

// NewRootCommand returns the plugin's command.
func NewRootCommand(f *Factory) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "kubectl-etcdmember",
		Short: "Health of, and safe operations on, the members of etcd clusters",
		Long: `Shows the health of every member of the etcd clusters in a Kubernetes cluster, says why it is what it is,
and manages the EtcdMember resource through which members publish their state.`,
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl etcdmember"},
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return cmd.Help()
		},
	}
	cmd.SetIn(f.In)
	cmd.SetOut(f.Out)
	cmd.SetErr(f.ErrOut)
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return fmt.Errorf("%w; see '%s --help'", err, cmd.CommandPath())
	})
	f.Config.AddFlags(cmd.PersistentFlags())
	completeConfigFlags(cmd, f)
	logging := flagSet()
	cmd.PersistentFlags().AddFlagSet(logging)

	cmd.AddGroup(&cobra.Group{ID: groupRead, Title: "See:"}, &cobra.Group{ID: groupManage, Title: "Manage:"})
	cmd.AddCommand(
		newStatusCommand(f),
		newDescribeCommand(f),
		newTimelineCommand(f),
		newDoctorCommand(f),
		newCRDCommand(f),
		newAdoptCommand(f),
		newVersionCommand(f),
	)
	cmd.CompletionOptions.DisableDefaultCmd = true
	cmd.AddCommand(newCompletionCommand(f))
	return cmd
}

const (
	groupRead   = "read"
	groupManage = "manage"
)

// flagSet returns kubectl's -v.
func flagSet() *pflag.FlagSet {
	fs := pflag.NewFlagSet("klog", pflag.ContinueOnError)
	v := fs.VarPF(verbosity{}, "v", "v", "number for the log level verbosity, as kubectl's: 6 shows requests")
	v.DefValue = "0"
	return fs
}

// verbosity sets klog's verbosity without klog's own flags, most of which kubectl hides as well.
type verbosity struct{}

func (verbosity) String() string { return "0" }
func (verbosity) Type() string   { return "Level" }
func (verbosity) Set(s string) error {
	var l klog.Level
	return l.Set(s)
}

// Main runs the plugin and returns its exit code.
func Main(ctx context.Context, f *Factory, args []string) int {
	// Some of kubectl's printers drop the errors of what they write to. On a full disk, that would be silent success.
	out := &stickyWriter{Writer: f.Out}
	if !printers.IsTerminal(f.Out) {
		f.Out = out
	}
	cmd := NewRootCommand(f)
	cmd.SetArgs(args)
	err := cmd.ExecuteContext(ctx)
	if err == nil && out.err != nil {
		err = fmt.Errorf("can't write the output: %w", out.err)
	}
	if err != nil && ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return ExitInterrupted
	}
	var e *CodeError
	if err != nil && !(errors.As(err, &e) && e.Err == nil) {
		fmt.Fprintf(f.ErrOut, "error: %s\n", printer.SanitizeMultiline(err.Error()))
	}
	return exitCode(err)
}

// stickyWriter remembers the first error.
type stickyWriter struct {
	io.Writer
	err error
}

func (w *stickyWriter) Write(p []byte) (int, error) {
	n, err := w.Writer.Write(p)
	if w.err == nil {
		w.err = err
	}
	return n, err
}

// NewFactory returns the Factory of a process that runs on standard streams.
func NewFactory() *Factory {
	return &Factory{
		IOStreams: genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr},
		Config:    genericclioptions.NewConfigFlags(true).WithDiscoveryBurst(300).WithDiscoveryQPS(50),
		Now:       time.Now,
	}
}
