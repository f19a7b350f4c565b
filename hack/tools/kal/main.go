// Command kal checks Go types of a Kubernetes API against the API conventions, with the analyzers of kube-api-linter but
// without golangci-lint, which is a hundred times their size.
//
// An exemption names the rule, what it is about, and why it does not hold there. One that nothing needs any more is an
// error, so that the list stays as short as it can be.
package main

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis/checker"
	"golang.org/x/tools/go/packages"
	"sigs.k8s.io/kube-api-linter/pkg/analysis/conditions"
	"sigs.k8s.io/kube-api-linter/pkg/analysis/defaults"
	"sigs.k8s.io/kube-api-linter/pkg/analysis/optionalfields"
	"sigs.k8s.io/kube-api-linter/pkg/analysis/registry"
	"sigs.k8s.io/kube-api-linter/pkg/config"
	_ "sigs.k8s.io/kube-api-linter/pkg/registration" // all analyzers
)

// off are rules that are not asked at all.
var off = map[string]string{
	"conflictingmarkers": "has no rules of its own",
	"dependenttags":      "has no rules of its own",
	"forbiddenmarkers":   "has no rules of its own",
	"namingconventions":  "has no rules of its own",
	"preferredmarkers":   "has no rules of its own",
	"minlength":          "an absent field is not known; an empty one, of a publisher in another language, is no reason to lose the whole status",
}

// exemption excuses findings of one rule.
type exemption struct {
	rule, about, because string
}

var exemptions = []exemption{
	{"nophase", `EtcdMemberTaskStatus\.Phase|TaskMemberStatus\.Phase`,
		"a task has one phase at a time and ends in one of four ways, as etcd-druid's EtcdOpsTask does; conditions say it for kubectl wait"},
	{"notimestamp", `Snapshot\.Timestamp`, "DEP-04 names it so"},
	{"nobools", `EtcdMemberStatus\.PeerTLSEnabled`, "DEP-04 names it so; it is a pointer, and absent is not known"},
	{"nobools", `Volume\.ReadOnly`, "a property of a mount, which has two values; it is a pointer, and absent is not known"},
	{"nobools", `EtcdMemberTaskSpec\.AllowDowntime|RollVolumes\.Renew`, "a permission, and a request, which is given or is not"},
	{"nodurations", `Soak|ProgressDeadline|TTLAfterFinished|SamplingInterval|LongestGap|LongestUnobserved`,
		"people write and read them, in kubectl's own notation; CEL bounds those that are written"},
	{"optionalfields", `(EtcdMemberStatus|Snapshot|Restoration|Defragmentation|Volume|Transition|MemberActionStatus|Publisher|EtcdMemberTaskStatus|TaskMemberStatus|TaskStep|TaskArchive|TaskEvidence)\.\w+ has a valid zero value \(""\)`,
		"an empty string is no value of any field of a status, so it can't be told from an absent one, and need not be"},
	{"optionalfields", `(ObservedGeneration|Revision|EndRevision|Term|Index|AppliedIndex|HashRevision) has a valid zero value \(0\)`,
		"they count from 1, so 0 is no value of any of them"},
	{"optionalfields", `does not allow the zero value\. (It must have the omitzero tag|The field does not need to be a pointer)`,
		"whether a struct is there is told by a pointer, whatever happens to be required in it today"},
	{"optionalfields", `(EtcdMember|EtcdMemberTask)\.Status (has a valid zero value|should have the omitempty tag)`,
		"omitzero leaves an empty status out, and there is nothing that an empty one would say"},
	{"requiredfields", `(Transition\.TransitionTime|TaskStep\.RecordedAt) (has a valid zero value|should have the omitempty tag)`,
		"a time is a string in JSON, and its zero is left out by omitzero; the analyzer takes it for an object"},
}

func main() {
	flag.Parse()
	if flag.NArg() == 0 {
		fmt.Fprintln(os.Stderr, "usage: kal PACKAGE...")
		os.Exit(2)
	}
	findings, err := lint(flag.Args())
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(2)
	}
	for _, f := range findings {
		fmt.Println(f)
	}
	if len(findings) > 0 {
		os.Exit(1)
	}
}

// lint returns what is wrong with packages, and with the exemptions.
func lint(patterns []string) ([]string, error) {
	var disabled []string
	for rule := range off {
		disabled = append(disabled, rule)
	}
	analyzers, err := registry.DefaultRegistry().InitializeLinters(config.Linters{Enable: []string{"*"}, Disable: disabled}, config.LintersConfig{
		"conditions":     &conditions.ConditionsConfig{UseProtobuf: conditions.ConditionsUseProtobufForbid, UsePatchStrategy: conditions.ConditionsUsePatchStrategyForbid},
		"defaults":       &defaults.DefaultsConfig{PreferredDefaultMarker: "kubebuilder:default"},
		"optionalfields": &optionalfields.OptionalFieldsConfig{Pointers: optionalfields.OptionalFieldsPointers{Preference: optionalfields.OptionalFieldsPointerPreferenceWhenRequired}},
	})
	if err != nil {
		return nil, fmt.Errorf("setting up the analyzers: %w", err)
	}
	pkgs, err := packages.Load(&packages.Config{Mode: packages.LoadAllSyntax}, patterns...)
	if err != nil {
		return nil, fmt.Errorf("loading %s: %w", strings.Join(patterns, " "), err)
	}
	if packages.PrintErrors(pkgs) > 0 {
		return nil, fmt.Errorf("%s can't be compiled", strings.Join(patterns, " "))
	}
	graph, err := checker.Analyze(analyzers, pkgs, nil)
	if err != nil {
		return nil, fmt.Errorf("analyzing %s: %w", strings.Join(patterns, " "), err)
	}
	var findings []string
	used := make([]bool, len(exemptions))
	for _, action := range graph.Roots {
		if action.Err != nil {
			return nil, fmt.Errorf("%s: %w", action, action.Err)
		}
		for _, d := range action.Diagnostics {
			if i := exempt(action.Analyzer.Name, d.Message); i >= 0 {
				used[i] = true
				continue
			}
			findings = append(findings, fmt.Sprintf("%s: %s: %s", action.Package.Fset.Position(d.Pos), action.Analyzer.Name, d.Message))
		}
	}
	slices.Sort(findings)
	for i, e := range exemptions {
		if !used[i] {
			findings = append(findings, fmt.Sprintf("nothing needs the exemption from %s of %s any more: remove it", e.rule, e.about))
		}
	}
	return findings, nil
}

// exempt returns the exemption that excuses a finding, or -1.
func exempt(rule, message string) int {
	return slices.IndexFunc(exemptions, func(e exemption) bool {
		return e.rule == rule && regexp.MustCompile(e.about).MatchString(message)
	})
}
