// Command demo shows the whole thread on a real cluster: custom resources, an etcd of three members with agents, what they
// publish, and what the plugin makes of it, also while one member is frozen. It fails where what it shows is not so.
//
// Without KUBECONFIG it brings up the lab; with it, it uses that cluster, whose nodes must have the images (see
// docs/own-cluster.md).
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/etcdmember/kubectl-etcdmember/test/lab/pki"
)

const (
	namespace = "etcdmember-demo"
	cluster   = "main"
	replicas  = 3
	frozenFor = 30 * time.Second
	// seenWithin is how soon a frozen member must show, and a healed one be well again.
	seenWithin = 10 * time.Second
)

func main() {
	keep := flag.Bool("keep", false, "leave the demo's namespace, so that it can be looked at")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	d := &demo{started: time.Now(), own: os.Getenv("KUBECONFIG") != "" && os.Getenv("ETCDMEMBER_LAB") != "1"}
	if err := d.run(ctx, *keep); err != nil {
		fmt.Fprintf(os.Stderr, "demo: %v\n", err)
		os.Exit(1)
	}
}

type demo struct {
	started time.Time
	// own: the cluster is the caller's, not the lab.
	own bool
	lab string
}

func (d *demo) run(ctx context.Context, keep bool) error {
	if err := d.cluster(ctx); err != nil {
		return err
	}
	d.say("Install the custom resources, and what the agents may do")
	if err := d.show(ctx, "kubectl", "etcdmember", "crd", "install"); err != nil {
		return err
	}
	if err := d.quiet(ctx, nil, "kubectl", "apply", "--server-side", "--force-conflicts", "-k", "config/rbac"); err != nil {
		return err
	}

	d.say("Start an etcd of three members with TLS, each with an agent beside it")
	if err := d.quiet(ctx, nil, "kubectl", "delete", "namespace", namespace, "--ignore-not-found", "--timeout=120s"); err != nil {
		return err
	}
	if err := d.quiet(ctx, nil, "kubectl", "create", "namespace", namespace); err != nil {
		return err
	}
	if !keep {
		defer d.cleanUp()
	}
	if err := d.secrets(ctx); err != nil {
		return err
	}
	if err := d.quiet(ctx, nil, "kubectl", "apply", "--server-side", "-k", "test/demo/manifests"); err != nil {
		return err
	}

	d.say("Create one EtcdMember for each replica; agents publish, and create nothing")
	if err := d.show(ctx, "kubectl", "etcdmember", "adopt", "-n", namespace, "sts/"+cluster); err != nil {
		return err
	}
	if err := d.show(ctx, "kubectl", "wait", "-n", namespace, "--for=condition=Ready", "--timeout=180s", "etcdmembers.druid.gardener.cloud", "--all"); err != nil {
		return errors.Join(err, d.show(ctx, "kubectl", "get", "pods,etcdmembers.druid.gardener.cloud", "-n", namespace, "-o", "wide"))
	}

	d.say("The members as kubectl shows them, and as the plugin judges them")
	if err := d.show(ctx, "kubectl", "get", "etcdmembers.druid.gardener.cloud", "-n", namespace); err != nil {
		return err
	}
	s, err := d.until(ctx, "be healthy", 60*time.Second, status.healthy)
	if err != nil {
		return err
	}
	if err := d.status(ctx); err != nil {
		return err
	}
	return d.freeze(ctx, s)
}

// freeze stops the process of one follower's etcd for a while, and sees that the table tells of it and of its recovery.
func (d *demo) freeze(ctx context.Context, s status) error {
	victim := s.follower()
	d.say(fmt.Sprintf("Freeze the etcd of %s for %s", victim, frozenFor))
	command := d.freezeCommand(victim)
	fmt.Printf("$ %s &\n", strings.Join(command, " "))
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Stdout, cmd.Stderr = &out, &out
	frozen := time.Now()
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("can't freeze %s: %w", victim, err)
	}
	if _, err := d.until(ctx, "show that "+victim+" is frozen", seenWithin, func(s status) bool {
		return s.Verdict == "Degraded" && s.health(victim) == "Unhealthy"
	}); err != nil {
		return errors.Join(err, errors.New(out.String()))
	}
	fmt.Printf("    seen %.1f s after the command was started\n", time.Since(frozen).Seconds())
	if err := d.status(ctx); err != nil {
		return err
	}
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("can't freeze %s: %w: %s", victim, err, out.String())
	}
	// The lab's command comes back at once, and heals later.
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(time.Until(frozen.Add(frozenFor))):
	}
	thawed := time.Now()
	d.say("It runs again")
	if _, err := d.until(ctx, "be healthy again", seenWithin, status.healthy); err != nil {
		return err
	}
	fmt.Printf("    healthy %.1f s after it was let go\n", time.Since(thawed).Seconds())
	return d.status(ctx)
}

// freezeCommand is run on the lab's own side, or, on a cluster of the caller's, in the pod.
func (d *demo) freezeCommand(pod string) []string {
	if d.own {
		return []string{"kubectl", "exec", "-n", namespace, pod, "-c", "etcd", "--", "/usr/local/bin/labfault", "freeze", "etcd", frozenFor.String()}
	}
	return []string{d.lab, "fault", "freeze", namespace + "/" + pod, "etcd", "--for", frozenFor.String()}
}

// cluster makes sure that there is one.
func (d *demo) cluster(ctx context.Context) error {
	if d.own {
		d.say("Use the cluster of KUBECONFIG")
		if loader := os.Getenv("IMAGE_LOADER"); loader != "" {
			return d.loadImages(ctx, loader)
		}
		return nil
	}
	d.say("Bring up the lab: a real Kubernetes on this machine")
	d.lab = filepath.Join("bin", "lab")
	if err := d.quiet(ctx, nil, "go", "build", "-trimpath", "-o", d.lab, "./test/lab/cmd/lab"); err != nil {
		return err
	}
	if err := d.show(ctx, d.lab, "up"); err != nil {
		return err
	}
	env, err := exec.CommandContext(ctx, d.lab, "env").Output()
	if err != nil {
		return fmt.Errorf("can't ask the lab how to reach it: %w", err)
	}
	for _, line := range strings.Split(string(env), "\n") {
		name, value, ok := strings.Cut(strings.TrimPrefix(line, "export "), "=")
		if !ok {
			continue
		}
		value = strings.Trim(value, `"'`)
		// The lab's kubectl comes after whatever the caller's PATH puts first, but there may be none.
		if name == "PATH" {
			value = strings.TrimSuffix(strings.ReplaceAll(value, "$PATH", ""), ":") + ":" + os.Getenv("PATH")
		}
		if err := os.Setenv(name, value); err != nil {
			return err
		}
	}
	return nil
}

// loadImages builds the images and hands each archive to a command such as 'kind load image-archive'.
func (d *demo) loadImages(ctx context.Context, loader string) error {
	dir, err := os.MkdirTemp("", "etcdmember-images-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := d.show(ctx, "go", "run", "-trimpath", "./test/lab/cmd/lab", "images", "save", dir); err != nil {
		return err
	}
	archives, err := filepath.Glob(filepath.Join(dir, "*.tar"))
	if err != nil {
		return err
	}
	for _, a := range archives {
		words := append(strings.Fields(loader), a)
		if err := d.show(ctx, words[0], words[1:]...); err != nil {
			return err
		}
	}
	return nil
}

// secrets makes the certificates that a cluster with cert-manager would be given by config/samples/certificates.yaml.
func (d *demo) secrets(ctx context.Context) error {
	ca, err := pki.NewAuthority("demo-ca")
	if err != nil {
		return err
	}
	pods := make([]string, replicas)
	for i := range pods {
		pods[i] = fmt.Sprintf("%s-%d", cluster, i)
	}
	names := slices.Concat(pki.LocalNames(), pki.PodNames(pods, cluster+"-peer", namespace))
	list := map[string]any{"apiVersion": "v1", "kind": "List"}
	var items []any
	for use, subject := range map[string]pki.Subject{
		"server": {CommonName: "server", Server: true, Client: true, Names: slices.Concat(names, pki.ServiceNames(cluster+"-client", namespace))},
		"peer":   {CommonName: "peer", Server: true, Client: true, Names: names},
		"client": {CommonName: "client", Client: true},
	} {
		pair, err := ca.Issue(subject)
		if err != nil {
			return err
		}
		items = append(items, map[string]any{
			"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls",
			"metadata": map[string]any{"name": cluster + "-" + use + "-tls", "namespace": namespace},
			"data":     map[string][]byte{"ca.crt": ca.Cert, "tls.crt": pair.Cert, "tls.key": pair.Key},
		})
	}
	list["items"] = items
	raw, err := json.Marshal(list)
	if err != nil {
		return err
	}
	return d.quiet(ctx, raw, "kubectl", "apply", "--server-side", "-f", "-")
}

func (d *demo) cleanUp() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	d.say("Remove the demo's namespace ('go run ./test/demo -keep' leaves it)")
	if err := d.quiet(ctx, nil, "kubectl", "delete", "namespace", namespace, "--wait=false"); err != nil {
		fmt.Fprintf(os.Stderr, "demo: %v\n", err)
	}
}

func (d *demo) say(what string) {
	fmt.Printf("\n==> %s (%.0fs)\n", what, time.Since(d.started).Seconds())
}

// show runs a command as a person would: it is printed, and so is what it says.
func (d *demo) show(ctx context.Context, name string, args ...string) error {
	fmt.Printf("$ %s %s\n", name, strings.Join(args, " "))
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s %s: %w", name, strings.Join(args, " "), err)
	}
	return nil
}

// quiet runs a command whose output is worth reading only when it fails.
func (d *demo) quiet(ctx context.Context, stdin []byte, name string, args ...string) error {
	fmt.Printf("$ %s %s\n", name, strings.Join(args, " "))
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stdin = bytes.NewReader(stdin)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, out)
	}
	return nil
}

// status is what the demo reads of 'status -o json'.
type status struct {
	Verdict string `json:"verdict"`
	Leader  string `json:"leader"`
	Members []struct {
		Name           string `json:"name"`
		Health         string `json:"health"`
		Role           string `json:"role"`
		PeerTLSEnabled bool   `json:"peerTLSEnabled"`
	} `json:"members"`
}

func (s status) healthy() bool {
	leaders := 0
	for _, m := range s.Members {
		if m.Health != "Healthy" || !m.PeerTLSEnabled {
			return false
		}
		if m.Role == "Leader" {
			leaders++
		}
	}
	return s.Verdict == "Healthy" && len(s.Members) == replicas && leaders == 1
}

func (s status) health(member string) string {
	for _, m := range s.Members {
		if m.Name == member {
			return m.Health
		}
	}
	return ""
}

func (s status) follower() string {
	for _, m := range s.Members {
		if m.Role == "Follower" {
			return m.Name
		}
	}
	return ""
}

func (d *demo) status(ctx context.Context) error {
	return d.show(ctx, "kubectl", "etcdmember", "status", "-n", namespace, cluster)
}

// until asks for the status again and again until it is as wanted.
func (d *demo) until(ctx context.Context, what string, limit time.Duration, wanted func(status) bool) (status, error) {
	deadline := time.Now().Add(limit)
	for {
		var s status
		out, err := exec.CommandContext(ctx, "kubectl", "etcdmember", "status", "-n", namespace, cluster, "-o", "json").Output()
		if err == nil {
			err = json.Unmarshal(out, &s)
		}
		if err == nil && wanted(s) {
			return s, nil
		}
		if time.Now().After(deadline) {
			return s, fmt.Errorf("the cluster did not %s within %s: %v\n%s", what, limit, err, out)
		}
		select {
		case <-ctx.Done():
			return s, ctx.Err()
		case <-time.After(250 * time.Millisecond):
		}
	}
}
