package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/etcdmember/kubectl-etcdmember/test/lab/internal/launch"
)

func newImages() *cobra.Command {
	cmd := &cobra.Command{Use: "images", Short: "Make container images, and give them to the nodes"}
	names := "Names are " + strings.Join(launch.Names(), ", ") + "; without any, the project's own."
	cmd.AddCommand(
		&cobra.Command{
			Use:   "load [NAME...]",
			Short: "Make images, and import those that have changed on all nodes",
			Long:  "Make images, and import those that have changed on all nodes. " + names,
			RunE: func(cmd *cobra.Command, args []string) error {
				l, err := open()
				if err != nil {
					return err
				}
				if len(args) == 0 {
					if args, err = l.OwnNames(); err != nil {
						return err
					}
				}
				loaded, err := l.Load(cmd.Context(), args...)
				for _, i := range loaded {
					fmt.Fprintln(cmd.OutOrStdout(), i.Ref)
				}
				return err
			},
		},
		&cobra.Command{
			Use:   "save DIR [NAME...]",
			Short: "Make images and write them to files, for a cluster of your own",
			Long:  "Make images and write them to files, for a cluster of your own (kind load image-archive FILE). " + names,
			Args:  cobra.MinimumNArgs(1),
			RunE: func(cmd *cobra.Command, args []string) error {
				l, err := open()
				if err != nil {
					return err
				}
				names := args[1:]
				if len(names) == 0 {
					if names, err = l.OwnNames(); err != nil {
						return err
					}
					names = append(names, "etcd:3.7")
				}
				saved, err := l.Save(cmd.Context(), args[0], names...)
				for _, path := range saved {
					fmt.Fprintln(cmd.OutOrStdout(), path)
				}
				return err
			},
		},
	)
	return cmd
}
