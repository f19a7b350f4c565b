package cli

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/etcdmember/kubectl-etcdmember/pkg/version"
)

func newVersionCommand(f *Factory) *cobra.Command {
	output := ""
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version of this plugin",
		Example: `  kubectl etcdmember version
  kubectl etcdmember version -o json`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			info := version.Get()
			var out []byte
			var err error
			switch output {
			case "":
				_, err = fmt.Fprintf(f.Out, "kubectl-etcdmember %s, %s, %s\n", version.String(), info.GoVersion, info.Platform)
				return err
			case "json":
				if out, err = json.MarshalIndent(info, "", "    "); err == nil {
					out = append(out, '\n')
				}
			case "yaml":
				out, err = yaml.Marshal(info)
			default:
				return fmt.Errorf("unknown output format %q; --output may be json or yaml", output)
			}
			if err != nil {
				return fmt.Errorf("can't print the version as %s: %w", output, err)
			}
			_, err = f.Out.Write(out)
			return err
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "", "output format: json or yaml")
	return cmd
}
