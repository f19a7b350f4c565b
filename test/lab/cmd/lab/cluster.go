package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/etcdmember/kubectl-etcdmember/test/lab/internal/control"
	"github.com/etcdmember/kubectl-etcdmember/test/lab/internal/host"
	"github.com/etcdmember/kubectl-etcdmember/test/lab/internal/launch"
	"github.com/etcdmember/kubectl-etcdmember/test/lab/internal/layout"
	"github.com/etcdmember/kubectl-etcdmember/test/lab/internal/sandbox"
)

func newBuild() *cobra.Command {
	return &cobra.Command{
		Use:   "build [SET...]",
		Short: "Install packages and build all binaries that `up` needs, without starting anything",
		Long: "Install packages and build all binaries that `up` needs, without starting anything. With sets of binaries named, only " +
			"these are built, which takes neither root nor Debian. Sets are " + strings.Join(launch.SetNames(), ", ") + ".",
		RunE: func(cmd *cobra.Command, args []string) error {
			l, err := open()
			if err != nil {
				return err
			}
			if len(args) > 0 {
				return l.BuildSets(cmd.Context(), args...)
			}
			if err := host.Check(); err != nil {
				return err
			}
			_, err = l.Prepare(cmd.Context())
			return err
		},
	}
}

func newUp() *cobra.Command {
	nodes := 3
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Start the lab, unless it is up",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			l, err := open()
			if err != nil {
				return err
			}
			if err := l.Up(cmd.Context(), nodes); err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), l.Layout.Kubeconfig())
			return err
		},
	}
	cmd.Flags().IntVar(&nodes, "nodes", nodes, "how many nodes")
	return cmd
}

func newDown() *cobra.Command {
	return &cobra.Command{
		Use:   "down",
		Short: "End the lab, with everything that ran in it",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			l, err := open()
			if err != nil {
				return err
			}
			return l.Down(cmd.Context())
		},
	}
}

func newStatus() *cobra.Command {
	output := ""
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Say whether the lab is up, and what runs in it",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			l, err := layout.Default()
			if err != nil {
				return err
			}
			s, err := control.Client{Socket: l.Socket()}.Status(cmd.Context())
			if err != nil {
				return fmt.Errorf("%w; `lab up` starts it", err)
			}
			if output == "json" {
				e := json.NewEncoder(cmd.OutOrStdout())
				e.SetIndent("", "  ")
				return e.Encode(s)
			}
			return printStatus(cmd.OutOrStdout(), l, s)
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", output, "json, for programs")
	return cmd
}

func printStatus(out io.Writer, l layout.Layout, s control.Status) error {
	state := "starting"
	switch {
	case s.Failed != "":
		state = "failed: " + s.Failed
	case s.Ready:
		state = "ready"
	}
	fmt.Fprintf(out, "lab %s, started %s ago, kubeconfig %s\n\n", state, time.Since(s.Started).Round(time.Second), l.Kubeconfig())
	var st sandbox.State
	_ = sandbox.ReadJSON(l.State(), &st) // the components are shown without memory then
	memory := memoryBelow(st.Init)
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "COMPONENT\tSTATE\tPID\tMEMORY\tRESTARTS\tSINCE")
	var total int64
	for _, c := range s.Components {
		state := "running"
		if !c.Running {
			state = "down"
		}
		if c.Stopped {
			state = "stopped"
		}
		total += memory[c.PID]
		fmt.Fprintf(w, "%s\t%s\t%d\t%d MiB\t%d\t%s\n", c.Name, state, c.PID, memory[c.PID]>>20, c.Restarts, time.Since(c.Since).Round(time.Second))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(out, "\ncomponents use %d MiB of memory\n", total>>20)
	for _, f := range s.Faults {
		fmt.Fprintf(out, "fault in force: %s\n", describe(f))
	}
	return nil
}

// memoryBelow maps the process numbers in the sandbox to what each process has resident.
func memoryBelow(init int) map[int]int64 {
	memory := map[int]int64{}
	namespace, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", init))
	if err != nil {
		return memory
	}
	files, _ := filepath.Glob("/proc/[0-9]*/status")
	for _, f := range files {
		if ns, err := os.Readlink(filepath.Join(filepath.Dir(f), "ns", "pid")); err != nil || ns != namespace {
			continue
		}
		text, err := os.ReadFile(f)
		if err != nil {
			continue
		}
		var pid int
		var resident int64
		for line := range strings.Lines(string(text)) {
			fields := strings.Fields(line)
			switch {
			case len(fields) > 1 && fields[0] == "NSpid:":
				_, _ = fmt.Sscan(fields[len(fields)-1], &pid)
			case len(fields) > 1 && fields[0] == "VmRSS:":
				_, _ = fmt.Sscan(fields[1], &resident)
			}
		}
		memory[pid] = resident << 10
	}
	return memory
}

func newEnv() *cobra.Command {
	return &cobra.Command{
		Use:   "env",
		Short: "Print the environment for a shell: eval \"$(lab env)\"",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			l, err := layout.Default()
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "export ETCDMEMBER_LAB=1\nexport KUBECONFIG=%q\nexport PATH=%q:\"$PATH\"\n", l.Kubeconfig(), l.Bin())
			return err
		},
	}
}

func newExec() *cobra.Command {
	return &cobra.Command{
		Use:   "exec -- COMMAND [ARGUMENT...]",
		Short: "Run a command inside the lab's namespaces, as on a node",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			l, err := layout.Default()
			if err != nil {
				return err
			}
			var s sandbox.State
			if err := sandbox.ReadJSON(l.State(), &s); err != nil {
				return fmt.Errorf("%w (%w); `lab up` starts it", control.ErrDown, err)
			}
			argv := append([]string{"nsenter", "--target", fmt.Sprint(s.Init), "--mount", "--net", "--pid", "--uts", "--ipc", "--root", "--wd", "--"}, args...)
			// Set, not appended: of a variable that is there twice, nsenter takes the first.
			for name, value := range map[string]string{
				"PATH":       l.Bin() + ":" + host.Path,
				"KUBECONFIG": filepath.Join(l.PKI(), "lab-manager.kubeconfig"),
			} {
				if err := os.Setenv(name, value); err != nil {
					return fmt.Errorf("setting %s: %w", name, err)
				}
			}
			if err := syscall.Exec(nsenter(), argv, os.Environ()); err != nil {
				return fmt.Errorf("running nsenter: %w", err)
			}
			return nil
		},
	}
}

func nsenter() string {
	for _, dir := range filepath.SplitList(host.Path) {
		if path := filepath.Join(dir, "nsenter"); fileExists(path) {
			return path
		}
	}
	return "nsenter"
}

func fileExists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func newLogs() *cobra.Command {
	lines := 200
	cmd := &cobra.Command{
		Use:   "logs [COMPONENT]",
		Short: "Print the log of a component, or list the logs",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			l, err := layout.Default()
			if err != nil {
				return err
			}
			if len(args) == 0 {
				files, err := filepath.Glob(filepath.Join(l.Log(), "*.log"))
				if err != nil {
					return fmt.Errorf("listing logs: %w", err)
				}
				for _, f := range files {
					fmt.Fprintln(cmd.OutOrStdout(), strings.TrimSuffix(filepath.Base(f), ".log"))
				}
				return nil
			}
			text, err := os.ReadFile(filepath.Join(l.Log(), filepath.Base(args[0])+".log"))
			if err != nil {
				return fmt.Errorf("reading the log of %s: %w; `lab logs` lists what there is", args[0], err)
			}
			all := strings.SplitAfter(strings.TrimSuffix(string(text), "\n"), "\n")
			_, err = fmt.Fprintln(cmd.OutOrStdout(), strings.Join(all[max(0, len(all)-lines):], ""))
			return err
		},
	}
	cmd.Flags().IntVarP(&lines, "lines", "n", lines, "how many of the last lines")
	return cmd
}
