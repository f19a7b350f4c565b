// Command docs writes the reference of the plugin's commands to a directory, from the commands themselves.
package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/etcdmember/kubectl-etcdmember/pkg/cli"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: docs DIRECTORY")
		os.Exit(2)
	}
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "docs:", err)
		os.Exit(1)
	}
}

func write(dir string) error {
	// What is generated must not depend on whose machine it is generated on: kubectl's default cache is below HOME.
	if err := os.Setenv("HOME", "$HOME"); err != nil {
		return err
	}
	root := cli.NewRootCommand(&cli.Factory{
		IOStreams: genericiooptions.IOStreams{In: strings.NewReader(""), Out: io.Discard, ErrOut: io.Discard},
		Config:    genericclioptions.NewConfigFlags(true),
	})
	// The files are named after the command as it is typed.
	root.Use = "kubectl-etcdmember"
	disableAutoGenTag(root)
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return doc.GenMarkdownTreeCustom(root, dir,
		func(string) string { return "" },
		func(name string) string { return filepath.Base(name) })
}

func disableAutoGenTag(cmd *cobra.Command) {
	cmd.DisableAutoGenTag = true
	for _, c := range cmd.Commands() {
		disableAutoGenTag(c)
	}
}
