package main

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/etcdmember/kubectl-etcdmember/test/lab/internal/control"
)

func newFault() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "fault",
		Short: "Do harm to the lab's pods and components, and undo it",
	}
	cmd.AddCommand(
		podFault("freeze NAMESPACE/POD CONTAINER", "Stop all processes of a container, without their knowing", 2, control.Freeze, nil),
		podFault("blackhole NAMESPACE/POD", "Discard all packets of a pod, its loopback's too", 1, control.BlackHole, nil),
		podFault("partition NAMESPACE/POD", "Cut a pod off from the network, but not from itself", 1, control.Partition, func(cmd *cobra.Command, f *control.Fault) {
			cmd.Flags().StringSliceVar(&f.From, "from", nil, "cut it off from these pods of its namespace only")
		}),
		podFault("fill NAMESPACE/POD", "Fill a pod's volume", 1, control.Fill, func(cmd *cobra.Command, f *control.Fault) {
			cmd.Flags().StringVar(&f.Volume, "volume", "", "which volume of the pod, if it has several")
			cmd.Flags().Int64Var(&f.Leave, "leave", 0, "how many bytes to leave free")
		}),
		newKill(), newStop(), newCorrupt(), newHeal(), newListFaults(),
	)
	return cmd
}

// podFault is a command for a fault that lasts.
func podFault(use, short string, args int, kind control.FaultKind, flags func(*cobra.Command, *control.Fault)) *cobra.Command {
	f := control.Fault{Kind: kind}
	cmd := &cobra.Command{Use: use, Short: short, Args: cobra.ExactArgs(args)}
	if flags != nil {
		flags(cmd, &f)
	}
	cmd.Flags().DurationVar(&f.For, "for", 0, "heal it by itself after this time")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := setPod(&f, args); err != nil {
			return err
		}
		return inject(cmd, f)
	}
	return cmd
}

func setPod(f *control.Fault, args []string) error {
	var ok bool
	if f.Namespace, f.Pod, ok = strings.Cut(args[0], "/"); !ok {
		return fmt.Errorf("%q is not NAMESPACE/POD", args[0])
	}
	if len(args) > 1 {
		f.Container = args[1]
	}
	return nil
}

func inject(cmd *cobra.Command, f control.Fault) error {
	c, err := client()
	if err != nil {
		return err
	}
	if f, err = c.Inject(cmd.Context(), f); err != nil {
		return err
	}
	_, err = fmt.Fprintln(cmd.OutOrStdout(), describe(f))
	return err
}

func newKill() *cobra.Command {
	signal := "KILL"
	cmd := &cobra.Command{
		Use:   "kill NAMESPACE/POD CONTAINER",
		Short: "Send a signal to all processes of a container",
		Args:  cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			f := control.Fault{Kind: control.Kill}
			number, err := signalNumber(signal)
			if err != nil {
				return err
			}
			f.Signal = number
			if err := setPod(&f, args); err != nil {
				return err
			}
			return inject(cmd, f)
		},
	}
	cmd.Flags().StringVarP(&signal, "signal", "s", signal, "which signal")
	return cmd
}

func newStop() *cobra.Command {
	f := control.Fault{Kind: control.Stop}
	kill := false
	cmd := &cobra.Command{
		Use:   "stop COMPONENT",
		Short: "Stop a component of the cluster, such as kube-apiserver or kubelet-node2",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			f.Component = args[0]
			if kill {
				f.Signal = int(syscall.SIGKILL)
			}
			return inject(cmd, f)
		},
	}
	cmd.Flags().BoolVar(&kill, "kill", kill, "kill it (signal 9) instead of telling it to end")
	cmd.Flags().DurationVar(&f.For, "for", 0, "start it again after this time")
	return cmd
}

func newCorrupt() *cobra.Command {
	f := control.Fault{Kind: control.Corrupt}
	c := control.Corruption{}
	kind, from, to := string(control.CorruptPages), "", ""
	cmd := &cobra.Command{
		Use:   "corrupt NAMESPACE/POD",
		Short: "Damage a file on a pod's volume",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := setPod(&f, args); err != nil {
				return err
			}
			c.Kind, c.From, c.To = control.CorruptionKind(kind), []byte(from), []byte(to)
			f.Corruption = &c
			return inject(cmd, f)
		},
	}
	cmd.Flags().StringVar(&kind, "kind", kind, "Value, Pages, Meta or Truncate")
	cmd.Flags().StringVar(&c.Path, "path", "data/member/snap/db", "the file, in the volume")
	cmd.Flags().StringVar(&from, "from", "", "for Value: the bytes to replace")
	cmd.Flags().StringVar(&to, "to", "", "for Value: what replaces them, of the same length")
	cmd.Flags().StringVar(&f.Volume, "volume", "", "which volume of the pod, if it has several")
	return cmd
}

func newHeal() *cobra.Command {
	all := false
	cmd := &cobra.Command{
		Use:   "heal [ID...]",
		Short: "Undo faults",
		RunE: func(cmd *cobra.Command, ids []string) error {
			c, err := client()
			if err != nil {
				return err
			}
			s, err := c.Status(cmd.Context())
			if err != nil {
				return err
			}
			if !all && len(ids) == 0 {
				return errors.New("which fault? Name its ID (`lab fault list`), or say --all")
			}
			inForce := map[string]bool{}
			for _, f := range s.Faults {
				inForce[f.ID] = true
				if all {
					ids = append(ids, f.ID)
				}
			}
			for _, id := range ids {
				if !inForce[id] {
					return fmt.Errorf("no fault %q is in force", id)
				}
				if err := c.Heal(cmd.Context(), id); err != nil {
					return err
				}
				fmt.Fprintln(cmd.OutOrStdout(), id, "healed")
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&all, "all", all, "undo all of them")
	return cmd
}

func newListFaults() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the faults in force",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := client()
			if err != nil {
				return err
			}
			s, err := c.Status(cmd.Context())
			if err != nil {
				return err
			}
			for _, f := range s.Faults {
				fmt.Fprintln(cmd.OutOrStdout(), describe(f))
			}
			return nil
		},
	}
}

// describe is a fault in one line.
func describe(f control.Fault) string {
	var b strings.Builder
	if f.ID != "" {
		fmt.Fprintf(&b, "%s: ", f.ID)
	}
	fmt.Fprintf(&b, "%s of ", f.Kind)
	if f.Component != "" {
		b.WriteString(f.Component)
	} else {
		fmt.Fprintf(&b, "pod %s/%s", f.Namespace, f.Pod)
	}
	if f.Container != "" {
		fmt.Fprintf(&b, " (%s)", f.Container)
	}
	if len(f.From) > 0 {
		fmt.Fprintf(&b, " from %s", strings.Join(f.From, ", "))
	}
	if f.For > 0 {
		fmt.Fprintf(&b, ", heals %s from its start", f.For.Round(time.Second))
	}
	return b.String()
}

// signalNumber understands "KILL", "SIGKILL" and "kill".
func signalNumber(name string) (int, error) {
	full := strings.ToUpper(name)
	if !strings.HasPrefix(full, "SIG") {
		full = "SIG" + full
	}
	if n := unix.SignalNum(full); n != 0 {
		return int(n), nil
	}
	return 0, fmt.Errorf("there is no signal %q", name)
}
