package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/printers"

	"github.com/etcdmember/kubectl-etcdmember/pkg/printer"
)

// outputFlags are kubectl's -o and what belongs to it.
type outputFlags struct {
	format     string
	jsonYAML   *genericclioptions.JSONYamlPrintFlags
	template   *genericclioptions.KubeTemplatePrintFlags
	formatList []string
}

func (f *outputFlags) add(cmd *cobra.Command) {
	f.jsonYAML = genericclioptions.NewJSONYamlPrintFlags()
	f.template = genericclioptions.NewKubeTemplatePrintFlags()
	f.template.AddFlags(cmd)
	f.formatList = append(f.formatList, "wide", "name")
	f.formatList = append(f.formatList, f.jsonYAML.AllowedFormats()...)
	f.formatList = append(f.formatList, f.template.AllowedFormats()...)
	f.formatList = append(f.formatList, columnFormats...)
	slices.Sort(f.formatList)
	cmd.Flags().StringVarP(&f.format, "output", "o", "", "output format, one of: "+strings.Join(f.formatList, ", "))
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(f.formatList, cobra.ShellCompDirectiveNoFileComp))
}

func (f *outputFlags) is(format string) bool { return f.format == format }

// isTable says whether the output is for people.
func (f *outputFlags) isTable() bool { return f.format == "" || f.format == "wide" }

// printDocument prints a document. YAML and templates print strings as they are: a script gets them so; a terminal must not.
func printDocument(p printers.ResourcePrinter, object runtime.Object, w io.Writer) error {
	if !printers.IsTerminal(w) {
		return p.PrintObj(object, w)
	}
	var document strings.Builder
	if err := p.PrintObj(object, &document); err != nil {
		return err
	}
	_, err := io.WriteString(w, printer.SanitizeMultiline(document.String()))
	return err
}

// printer returns the printer of a format, or nil where the format is not a document.
func (f *outputFlags) printer(noHeaders bool) (printers.ResourcePrinter, error) {
	switch f.format {
	case "":
		// kubectl takes --template alone for a go-template.
		if f.template.TemplateArgument == nil || *f.template.TemplateArgument == "" {
			return nil, nil
		}
		f.format = "go-template"
	case "wide", "name":
		return nil, nil
	}
	if p, err := f.columns(noHeaders); p != nil || err != nil {
		return p, err
	}
	for _, flags := range []interface {
		ToPrinter(string) (printers.ResourcePrinter, error)
	}{f.jsonYAML, f.template} {
		p, err := flags.ToPrinter(f.format)
		if genericclioptions.IsNoCompatiblePrinterError(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("--output %s can't be used: %w", f.format, err)
		}
		return p, nil
	}
	return nil, fmt.Errorf("unknown output format %q; --output may be one of: %s", f.format, strings.Join(f.formatList, ", "))
}

var columnFormats = []string{"custom-columns", "custom-columns-file"}

// columns returns the printer of custom-columns=SPEC, or with the specification in --template, as kubectl has it; nil for
// other formats.
func (f *outputFlags) columns(noHeaders bool) (printers.ResourcePrinter, error) {
	format, argument, inline := strings.Cut(f.format, "=")
	if !slices.Contains(columnFormats, format) {
		return nil, nil
	}
	if !inline && f.template.TemplateArgument != nil {
		argument = *f.template.TemplateArgument
	}
	newPrinter := printer.NewCustomColumns
	if format == "custom-columns-file" {
		newPrinter = printer.NewCustomColumnsFromFile
	}
	p, err := newPrinter(argument, noHeaders)
	if err != nil {
		return nil, err
	}
	return p, nil
}
