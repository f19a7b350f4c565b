// Package krew checks the krew plugin manifest that a release will have.
package krew

import (
	"bytes"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"text/template"

	"sigs.k8s.io/yaml"
)

const (
	root = "../.."
	tag  = "v0.1.0"
	sum  = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
)

// plugin is krew's Plugin of v1alpha2: the fields that krew knows, and no others.
type plugin struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Spec struct {
		Version          string     `json:"version"`
		ShortDescription string     `json:"shortDescription"`
		Description      string     `json:"description"`
		Caveats          string     `json:"caveats"`
		Homepage         string     `json:"homepage"`
		Platforms        []platform `json:"platforms"`
	} `json:"spec"`
}

type platform struct {
	URI      string `json:"uri"`
	SHA256   string `json:"sha256"`
	Selector struct {
		MatchLabels map[string]string `json:"matchLabels"`
	} `json:"selector"`
	Bin string `json:"bin"`
}

// matches says whether krew chooses the platform on a machine.
func (p platform) matches(goos, arch string) bool {
	for key, want := range p.Selector.MatchLabels {
		if got := map[string]string{"os": goos, "arch": arch}[key]; got != want {
			return false
		}
	}
	return true
}

// render does what krew-release-bot does, but for the download.
func render(t *testing.T, tag string) []byte {
	t.Helper()
	text, err := os.ReadFile(path.Join(root, ".krew.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]string{"TagName": tag}
	execute := func(text string, funcs template.FuncMap) (string, error) {
		tmpl, err := template.New("krew").Option("missingkey=error").Funcs(funcs).Parse(text)
		if err != nil {
			return "", err
		}
		var out bytes.Buffer
		err = tmpl.Execute(&out, values)
		return out.String(), err
	}
	out, err := execute(string(text), template.FuncMap{
		"addURIAndSha": func(uri, tag string) (string, error) {
			uri, err := execute(uri, nil)
			return fmt.Sprintf("uri: %s\n    sha256: %s", uri, sum), err
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return []byte(out)
}

// TestManifest checks what krew and the checks of krew-index check.
func TestManifest(t *testing.T) {
	manifest := render(t, tag)
	var p plugin
	if err := yaml.UnmarshalStrict(manifest, &p); err != nil {
		t.Fatalf("%v\n%s", err, manifest)
	}
	check := func(ok bool, format string, a ...any) {
		t.Helper()
		if !ok {
			t.Errorf(format, a...)
		}
	}
	check(p.APIVersion == "krew.googlecontainertools.github.com/v1alpha2", "apiVersion %q", p.APIVersion)
	check(p.Kind == "Plugin", "kind %q", p.Kind)
	// krew-index's file has the plugin's name; krew allows letters, digits, - and _, krew-index no capitals and no _.
	check(regexp.MustCompile(`^[a-z][a-z0-9]*(-[a-z0-9]+)*$`).MatchString(p.Metadata.Name), "name %q", p.Metadata.Name)
	check(!strings.HasPrefix(p.Metadata.Name, "kube"), "a plugin is not called kube…: %q", p.Metadata.Name)
	check(p.Spec.Version == tag && regexp.MustCompile(`^v(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)$`).MatchString(p.Spec.Version), "version %q", p.Spec.Version)

	short := p.Spec.ShortDescription
	check(short != "" && len(short) <= 50, "shortDescription has %d characters, of 50: %q", len(short), short)
	check(!strings.Contains(short, "\n") && !strings.HasSuffix(short, "."), "shortDescription %q", short)
	check(!regexp.MustCompile(`(?i)kubectl|plugin|kubernetes`).MatchString(short), "shortDescription says what every plugin is: %q", short)
	check(p.Spec.Description != "", "no description")
	for _, text := range []string{p.Spec.Description, p.Spec.Caveats} {
		for line := range strings.Lines(text) {
			check(len(strings.TrimRight(line, "\n")) <= 80, "a line has more than 80 characters: %q", line)
		}
	}
	home, err := url.Parse(p.Spec.Homepage)
	check(err == nil && home.Scheme == "https" && home.Host != "", "homepage %q", p.Spec.Homepage)

	check(len(p.Spec.Platforms) > 0, "no platforms")
	for i, pl := range p.Spec.Platforms {
		goos, arch := pl.Selector.MatchLabels["os"], pl.Selector.MatchLabels["arch"]
		check(goos != "" && arch != "" && len(pl.Selector.MatchLabels) == 2, "platform %d selects by %v, not by os and arch", i, pl.Selector.MatchLabels)
		check(regexp.MustCompile(`^[a-f0-9]{64}$`).MatchString(pl.SHA256), "sha256 %q", pl.SHA256)
		check(path.Base(pl.Bin) == pl.Bin && pl.Bin != ".", "bin %q leaves the archive", pl.Bin)
		want, suffix := "kubectl-etcdmember", ".tar.gz"
		if goos == "windows" {
			want, suffix = want+".exe", ".zip"
		}
		check(pl.Bin == want, "bin %q on %s, want %q", pl.Bin, goos, want)
		wantURI := fmt.Sprintf("%s/releases/download/%s/kubectl-etcdmember_%s_%s_%s%s", p.Spec.Homepage, tag, tag, goos, arch, suffix)
		check(pl.URI == wantURI, "uri %q, want %q", pl.URI, wantURI)
	}
	out, err := exec.Command("go", "tool", "dist", "list").Output()
	if err != nil {
		t.Fatal(err)
	}
	known := strings.Fields(string(out))
	for _, machine := range known {
		goos, arch, _ := strings.Cut(machine, "/")
		n := 0
		for _, pl := range p.Spec.Platforms {
			if pl.matches(goos, arch) {
				n++
			}
		}
		check(n <= 1, "%d platforms are for %s", n, machine)
	}
	for _, pl := range p.Spec.Platforms {
		machine := pl.Selector.MatchLabels["os"] + "/" + pl.Selector.MatchLabels["arch"]
		check(slices.Contains(known, machine), "Go does not build for %s", machine)
	}
}

// TestLicense: krew-index wants one in every archive, and refuses a plugin without.
func TestLicense(t *testing.T) {
	text, err := os.ReadFile(path.Join(root, "LICENSE"))
	if err != nil || !bytes.Contains(text, []byte("Apache License")) {
		t.Errorf("no LICENSE to put into the archives: %v", err)
	}
}
