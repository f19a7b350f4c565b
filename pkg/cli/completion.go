package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// completionShells are the shells that cobra writes completion scripts for.
var completionShells = []string{"bash", "zsh", "fish", "powershell"}

// completionShim is the name under which kubectl looks for a program that completes 'kubectl etcdmember'.
const completionShim = "kubectl_complete-etcdmember"

// shimMark is in every shim, so that a later installation knows what it may overwrite.
const shimMark = "completes 'kubectl etcdmember'"

type completionOptions struct {
	factory *Factory
	install string

	shell string
}

func newCompletionCommand(f *Factory) *cobra.Command {
	o := &completionOptions{factory: f}
	cmd := &cobra.Command{
		Use:   "completion bash|zsh|fish|powershell|kubectl",
		Short: "Print what makes a shell complete this plugin's commands",
		Long: `Prints a completion script for a shell, which completes kubectl-etcdmember.

For 'kubectl etcdmember' kubectl runs a program named ` + completionShim + `, which it looks for in PATH. 'completion kubectl'
prints that program, or puts it into a directory. kubectl's own completion must be set up, see 'kubectl completion --help'.`,
		Example: `  # Complete 'kubectl etcdmember'
  kubectl etcdmember completion kubectl --install ~/.local/bin

  # Complete 'kubectl-etcdmember' in this bash, and in every one to come
  source <(kubectl etcdmember completion bash)
  kubectl etcdmember completion bash > ~/.local/share/bash-completion/completions/kubectl-etcdmember

  # The same for zsh, fish and PowerShell
  kubectl etcdmember completion zsh > "${fpath[1]}/_kubectl-etcdmember"
  kubectl etcdmember completion fish > ~/.config/fish/completions/kubectl-etcdmember.fish
  kubectl etcdmember completion powershell | Out-String | Invoke-Expression`,
		ValidArgs: append(slices.Clone(completionShells), "kubectl"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.complete(args); err != nil {
				return err
			}
			return o.run(cmd.Root())
		},
	}
	cmd.Flags().StringVar(&o.install, "install", "", "with kubectl: the directory to put "+completionShim+" into; it should be in PATH")
	if err := cmd.MarkFlagDirname("install"); err != nil {
		panic(err)
	}
	return cmd
}

func (o *completionOptions) complete(args []string) error {
	if len(args) != 1 {
		return errors.New("name one shell: bash, zsh, fish or powershell, or kubectl; see 'kubectl etcdmember completion --help'")
	}
	o.shell = args[0]
	switch {
	case o.shell == "kubectl":
		return nil
	case o.install != "":
		return errors.New("--install is for 'completion kubectl' only; write a shell's script to a file with >")
	case !slices.Contains(completionShells, o.shell):
		return fmt.Errorf("there is no completion for %q; there is for bash, zsh, fish and powershell, and for kubectl", o.shell)
	}
	return nil
}

func (o *completionOptions) run(root *cobra.Command) error {
	switch o.shell {
	case "bash":
		return root.GenBashCompletionV2(o.factory.Out, true)
	case "zsh":
		return root.GenZshCompletion(o.factory.Out)
	case "fish":
		return root.GenFishCompletion(o.factory.Out, true)
	case "powershell":
		return root.GenPowerShellCompletionWithDesc(o.factory.Out)
	}
	name, text := completionShimFor(runtime.GOOS)
	if o.install == "" {
		_, err := fmt.Fprint(o.factory.Out, text)
		return err
	}
	return o.installShim(name, text)
}

// completionShimFor is the program that kubectl runs. It looks the plugin up anew each time, so that it outlives upgrades,
// which a link to this very executable would not.
func completionShimFor(goos string) (name, text string) {
	if goos == "windows" {
		return completionShim + ".bat", "@rem " + shimMark + "\r\n@kubectl-etcdmember __complete %*\r\n"
	}
	return completionShim, "#!/bin/sh\n# " + shimMark + ": kubectl runs it with the words typed so far.\nexec kubectl-etcdmember __complete \"$@\"\n"
}

// installShim puts the shim into a directory, and overwrites nothing but an older shim.
func (o *completionOptions) installShim(name, text string) error {
	file := filepath.Join(o.install, name)
	old, err := os.ReadFile(file)
	switch {
	case err == nil && string(old) == text:
		fmt.Fprintf(o.factory.Out, "%s unchanged\n", file)
		return o.warnPath()
	case err == nil && !strings.Contains(string(old), shimMark):
		return refusef("%s is not this plugin's, so it is left as it is; move it away first", file)
	case err != nil && !errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("can't look at %s: %w", file, err)
	}
	// A new file in place of the old one: a shell that reads the old one now is not disturbed.
	tmp, err := os.CreateTemp(o.install, name+".*")
	if err != nil {
		return fmt.Errorf("can't write into %s: %w; create the directory first, or choose another", o.install, err)
	}
	_, err = tmp.WriteString(text)
	err = errors.Join(err, tmp.Chmod(0o755), tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), file)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("can't write %s: %w", file, err), os.Remove(tmp.Name()))
	}
	fmt.Fprintf(o.factory.Out, "%s installed\n", file)
	return o.warnPath()
}

// warnPath says so if kubectl will not find the shim.
func (o *completionOptions) warnPath() error {
	dir, err := filepath.Abs(o.install)
	if err != nil {
		return fmt.Errorf("can't find out where %s is: %w", o.install, err)
	}
	for _, p := range filepath.SplitList(os.Getenv("PATH")) {
		if abs, err := filepath.Abs(p); err == nil && abs == dir {
			return nil
		}
	}
	fmt.Fprintf(o.factory.ErrOut, "warning: %s is not in PATH, so kubectl will not find %s there\n", o.install, completionShim)
	return nil
}
