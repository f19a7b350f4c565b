// Package launch starts and ends the lab from the host: it installs, builds, hands over to the supervisor, and waits.
package launch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/etcdmember/kubectl-etcdmember/test/lab/internal/build"
	"github.com/etcdmember/kubectl-etcdmember/test/lab/internal/control"
	"github.com/etcdmember/kubectl-etcdmember/test/lab/internal/host"
	"github.com/etcdmember/kubectl-etcdmember/test/lab/internal/images"
	"github.com/etcdmember/kubectl-etcdmember/test/lab/internal/layout"
	"github.com/etcdmember/kubectl-etcdmember/test/lab/internal/sandbox"
)

// Launcher starts and ends one lab.
type Launcher struct {
	Layout layout.Layout
	Log    io.Writer
}

// New makes a launcher that tells log what it does.
func New(l layout.Layout, log io.Writer) *Launcher {
	return &Launcher{Layout: l, Log: log}
}

// Client talks to the lab if it is up.
func (l *Launcher) Client() control.Client { return control.Client{Socket: l.Layout.Socket()} }

func (l *Launcher) builder() (build.Builder, error) {
	root, err := layout.RepoRoot()
	if err != nil {
		return build.Builder{}, fmt.Errorf("finding what to build the lab from: %w; run it in a checkout", err)
	}
	return build.Builder{Root: root, Layout: l.Layout, Log: l.Log}, nil
}

// Prepare installs and builds all that the lab needs to start, and returns what to run, but for the number of nodes.
func (l *Launcher) Prepare(ctx context.Context) (sandbox.Config, error) {
	c := sandbox.Config{Layout: l.Layout}
	if err := host.Install(ctx, l.Log); err != nil {
		return c, err
	}
	b, err := l.builder()
	if err != nil {
		return c, err
	}
	kubernetes, err := b.Build(ctx, build.Kubernetes)
	if err != nil {
		return c, err
	}
	etcd, err := b.Build(ctx, build.Etcd37)
	if err != nil {
		return c, err
	}
	coredns, err := b.Build(ctx, build.CoreDNS)
	if err != nil {
		return c, err
	}
	c.Kubernetes, c.Etcd, c.CoreDNS = kubernetes.Dir, etcd.Dir, coredns.Dir

	pause := filepath.Join(l.Layout.Binaries(), "own", "pause")
	if err := b.Own(ctx, "./test/lab/cmd/pause", pause); err != nil {
		return c, err
	}
	etcdSpec, err := l.etcdSpec(ctx, b, etcd)
	if err != nil {
		return c, err
	}
	for _, s := range []images.Spec{images.Single(images.Pause, "pause", pause), etcdSpec} {
		archive, err := images.Write(l.Layout.Images(), s)
		if err != nil {
			return c, err
		}
		c.Images = append(c.Images, archive)
	}
	for _, own := range Own {
		archive, err := l.buildOwn(ctx, b, own)
		if err != nil {
			// A lab without the project's own images is still good for much, such as finding out why.
			fmt.Fprintf(l.Log, "going on without the image %s: %v\n", own.Ref, err)
			continue
		}
		c.Images = append(c.Images, archive)
	}
	return c, nil
}

// Up starts the lab and waits until it is ready. It says so if it was up before.
func (l *Launcher) Up(ctx context.Context, nodes int) error {
	if s, err := l.Client().Status(ctx); err == nil && s.Ready {
		fmt.Fprintf(l.Log, "the lab is up, since %s\n", s.Started.Format(time.TimeOnly))
		return nil
	}
	if err := host.Check(); err != nil {
		return err
	}
	if nodes < 1 || nodes > 200 {
		return fmt.Errorf("the lab can have 1 to 200 nodes, not %d", nodes)
	}
	start := time.Now()
	lock, err := layout.Lock(ctx, l.Layout.UpLock(), func() {
		fmt.Fprintln(l.Log, "waiting for another process that starts or ends the lab")
	})
	if err != nil {
		return err
	}
	defer lock.Close()
	if s, err := l.Client().Status(ctx); err == nil && s.Ready {
		fmt.Fprintf(l.Log, "the lab is up, since %s\n", s.Started.Format(time.TimeOnly))
		return nil
	}
	if l.supervised() {
		// Somebody started it and did not wait.
		fmt.Fprintln(l.Log, "the lab is starting")
	} else {
		c, err := l.Prepare(ctx)
		if err != nil {
			return err
		}
		c.Nodes = nodes
		if err := l.launch(c); err != nil {
			return err
		}
	}
	if err := l.follow(ctx); err != nil {
		return err
	}
	fmt.Fprintf(l.Log, "the lab is ready after %s\n", time.Since(start).Round(100*time.Millisecond))
	return nil
}

// launch starts the supervisor, in a session of its own.
func (l *Launcher) launch(c sandbox.Config) error {
	supervisor, err := layout.TryLock(l.Layout.SupervisorLock())
	if err != nil {
		return err
	}
	defer supervisor.Close()
	if err := sandbox.Clean(l.Layout); err != nil {
		return err
	}
	if err := os.RemoveAll(l.Layout.Log()); err != nil {
		return fmt.Errorf("removing the last lab's logs: %w", err)
	}
	for _, dir := range []string{l.Layout.Run(), l.Layout.Log(), l.Layout.Bin()} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("making room for the lab: %w", err)
		}
	}
	exe, err := l.installSelf(c)
	if err != nil {
		return err
	}
	if err := sandbox.WriteJSON(l.Layout.Config(), c); err != nil {
		return err
	}
	log, err := os.Create(filepath.Join(l.Layout.Log(), "lab.log"))
	if err != nil {
		return fmt.Errorf("opening the lab's log: %w", err)
	}
	defer log.Close()
	cmd := exec.Command(exe, "sandbox", "supervise", l.Layout.Dir, l.Layout.Cache)
	cmd.Dir = "/"
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	supervisor.Close()
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting the lab's supervisor: %w", err)
	}
	return cmd.Process.Release()
}

// installSelf copies this executable into the lab, for `go run` removes its own when it ends, and links kubectl.
func (l *Launcher) installSelf(c sandbox.Config) (string, error) {
	exe := filepath.Join(l.Layout.Bin(), "lab")
	text, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		return "", fmt.Errorf("copying the lab's executable: %w", err)
	}
	if err := os.WriteFile(exe+".tmp", text, 0o755); err != nil {
		return "", fmt.Errorf("copying the lab's executable: %w", err)
	}
	if err := os.Rename(exe+".tmp", exe); err != nil {
		return "", fmt.Errorf("copying the lab's executable: %w", err)
	}
	links := map[string]string{"kubectl": filepath.Join(c.Kubernetes, "kubectl")}
	for _, tool := range []string{"etcdctl", "etcdutl"} {
		links[tool] = filepath.Join(c.Etcd, tool)
	}
	for name, target := range links {
		link := filepath.Join(l.Layout.Bin(), name)
		_ = os.Remove(link) // if it is not there, all the better
		if err := os.Symlink(target, link); err != nil {
			return "", fmt.Errorf("linking %s: %w", name, err)
		}
	}
	return exe, nil
}

// follow prints the steps of a lab that starts, until it is ready or has failed.
func (l *Launcher) follow(ctx context.Context) error {
	printed := 0
	for answered := false; ; {
		s, err := l.Client().Status(ctx)
		if err == nil {
			answered = true
			for ; printed < len(s.Steps); printed++ {
				step := s.Steps[printed]
				fmt.Fprintf(l.Log, "%6.1fs  %s (%.1fs)\n", step.At.Seconds(), step.Name, step.Took.Seconds())
			}
			if s.Ready {
				return nil
			}
			if s.Failed != "" {
				return fmt.Errorf("the lab could not start: %s; its logs are in %s, and `lab down` ends what there is of it", s.Failed, l.Layout.Log())
			}
		}
		if !l.supervised() && (answered || !l.startsUp(ctx)) {
			return fmt.Errorf("the lab ended before it was ready:\n%s", l.lastWords())
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for the lab to be ready: %w", ctx.Err())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// supervised says whether a supervisor holds its lock.
func (l *Launcher) supervised() bool {
	lock, err := layout.TryLock(l.Layout.SupervisorLock())
	if err == nil {
		lock.Close()
	}
	return errors.Is(err, layout.ErrLocked)
}

// startsUp gives a supervisor that was started a moment ago the time to take its lock.
func (l *Launcher) startsUp(ctx context.Context) bool {
	for range 100 {
		if l.supervised() {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(20 * time.Millisecond):
		}
	}
	return false
}

func (l *Launcher) lastWords() string {
	text, err := os.ReadFile(filepath.Join(l.Layout.Log(), "lab.log"))
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-20):], "\n")
}

// Down ends the lab, and removes what one that was killed may have left.
func (l *Launcher) Down(ctx context.Context) error {
	if err := host.Check(); err != nil {
		return err
	}
	lock, err := layout.Lock(ctx, l.Layout.UpLock(), func() {
		fmt.Fprintln(l.Log, "waiting for another process that starts or ends the lab")
	})
	if err != nil {
		return err
	}
	defer lock.Close()
	start := time.Now()
	was := l.supervised()
	if was {
		var s sandbox.State
		if err := sandbox.ReadJSON(l.Layout.State(), &s); err != nil {
			return err
		}
		if err := syscall.Kill(s.Supervisor, syscall.SIGTERM); err != nil {
			return fmt.Errorf("telling the lab's supervisor (process %d) to end: %w", s.Supervisor, err)
		}
	}
	supervisor, err := layout.Lock(ctx, l.Layout.SupervisorLock(), nil)
	if err != nil {
		return err
	}
	defer supervisor.Close()
	if err := sandbox.Clean(l.Layout); err != nil {
		return err
	}
	if err := os.Remove(l.Layout.Kubeconfig()); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("removing the kubeconfig of a lab that is gone: %w", err)
	}
	if was {
		fmt.Fprintf(l.Log, "the lab is down after %s\n", time.Since(start).Round(100*time.Millisecond))
	} else {
		fmt.Fprintln(l.Log, "the lab was not up")
	}
	return nil
}
