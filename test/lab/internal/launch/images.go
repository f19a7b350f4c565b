package launch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/etcdmember/kubectl-etcdmember/test/lab/internal/build"
	"github.com/etcdmember/kubectl-etcdmember/test/lab/internal/control"
	"github.com/etcdmember/kubectl-etcdmember/test/lab/internal/images"
)

// OwnImage is an image of one of the project's own commands.
type OwnImage struct {
	Ref, Binary, Package string
}

// Own are the project's own images. They are rebuilt whenever they are asked for.
var Own = []OwnImage{
	{Ref: images.Agent, Binary: "etcdmember-agent", Package: "./cmd/etcdmember-agent"},
	{Ref: images.Controller, Binary: "etcdmember-controller", Package: "./cmd/etcdmember-controller"},
}

func (l *Launcher) buildOwn(ctx context.Context, b build.Builder, own OwnImage) (images.Archive, error) {
	if _, err := os.Stat(filepath.Join(b.Root, own.Package)); err != nil {
		return images.Archive{}, fmt.Errorf("this checkout has no %s", own.Package)
	}
	binary := filepath.Join(l.Layout.Binaries(), "own", own.Binary)
	if err := b.Own(ctx, own.Package, binary); err != nil {
		return images.Archive{}, err
	}
	archive, err := images.Write(l.Layout.Images(), images.Single(own.Ref, own.Binary, binary))
	if err != nil {
		return images.Archive{}, err
	}
	return archive, l.forgetOthers(archive)
}

// forgetOthers removes the archives of an image that was built before, since every change of the code makes a new one.
func (l *Launcher) forgetOthers(current images.Archive) error {
	name := filepath.Base(current.Path)
	others, err := filepath.Glob(filepath.Join(filepath.Dir(current.Path), name[:strings.LastIndexByte(name, '-')]+"-*.tar"))
	if err != nil {
		return fmt.Errorf("listing images: %w", err)
	}
	for _, path := range others {
		if path == current.Path {
			continue
		}
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("removing an outdated image: %w", err)
		}
	}
	return nil
}

// Names of images that can be asked for, besides those of single etcd versions.
func Names() []string {
	return []string{"agent", "controller", "etcd:3.7", "etcd:3.6", "etcd:3.5", "etcd:3.4"}
}

// OwnNames are the names of the project's own images, as far as the checkout has their commands.
func (l *Launcher) OwnNames() ([]string, error) {
	b, err := l.builder()
	if err != nil {
		return nil, err
	}
	var names []string
	for _, own := range Own {
		if _, err := os.Stat(filepath.Join(b.Root, own.Package)); err == nil {
			names = append(names, strings.TrimPrefix(own.Binary, "etcdmember-"))
		}
	}
	return names, nil
}

// etcdSpec is the image of an etcd with the program by which a demo freezes it where nobody can from outside.
func (l *Launcher) etcdSpec(ctx context.Context, b build.Builder, etcd build.Built) (images.Spec, error) {
	spec := images.EtcdSpec(etcd)
	fault := filepath.Join(l.Layout.Binaries(), "own", "labfault")
	if err := b.Own(ctx, "./test/demo/labfault", fault); err != nil {
		return spec, err
	}
	spec.Files["/usr/local/bin/labfault"] = fault
	return spec, nil
}

// Archive makes the image of that name ("agent", "etcd:3.6", "etcd:3.6.16") if it isn't there already.
func (l *Launcher) Archive(ctx context.Context, name string) (images.Archive, error) {
	b, err := l.builder()
	if err != nil {
		return images.Archive{}, err
	}
	if version, ok := strings.CutPrefix(name, "etcd:"); ok {
		built, err := etcdOf(ctx, b, version)
		if err != nil {
			return images.Archive{}, err
		}
		spec, err := l.etcdSpec(ctx, b, built)
		if err != nil {
			return images.Archive{}, err
		}
		return images.Write(l.Layout.Images(), spec)
	}
	i := slices.IndexFunc(Own, func(o OwnImage) bool { return o.Binary == "etcdmember-"+name })
	if i < 0 {
		return images.Archive{}, fmt.Errorf("the lab has no image %q; it has: %s", name, strings.Join(Names(), ", "))
	}
	return l.buildOwn(ctx, b, Own[i])
}

// Load makes images and gives them to the nodes.
func (l *Launcher) Load(ctx context.Context, names ...string) ([]images.Archive, error) {
	var loaded []images.Archive
	for _, name := range names {
		archive, err := l.Archive(ctx, name)
		if err != nil {
			return nil, err
		}
		if err := l.Client().Load(ctx, control.Image{Ref: archive.Ref, Path: archive.Path, Digest: archive.Digest}); err != nil {
			return nil, err
		}
		loaded = append(loaded, archive)
	}
	return loaded, nil
}

// Save makes images and copies them to dir, for clusters other than the lab.
func (l *Launcher) Save(ctx context.Context, dir string, names ...string) ([]string, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("making room for images: %w", err)
	}
	var saved []string
	for _, name := range names {
		archive, err := l.Archive(ctx, name)
		if err != nil {
			return nil, err
		}
		path := filepath.Join(dir, strings.NewReplacer("/", "-", ":", "-").Replace(name)+".tar")
		if err := copyFile(path, archive.Path); err != nil {
			return nil, err
		}
		saved = append(saved, path)
	}
	return saved, nil
}

func copyFile(to, from string) error {
	in, err := os.Open(from)
	if err != nil {
		return fmt.Errorf("copying an image: %w", err)
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		return fmt.Errorf("copying an image: %w", err)
	}
	_, err = io.Copy(out, in)
	if err := errors.Join(err, out.Close()); err != nil {
		return fmt.Errorf("copying an image: %w", err)
	}
	return nil
}

// etcdOf finds the etcd of a version, which may be given as "3.6" or in full.
func etcdOf(ctx context.Context, b build.Builder, version string) (build.Built, error) {
	var built build.Built
	var err error
	switch minor := strings.Join(strings.SplitN(version, ".", 3)[:min(2, strings.Count(version, ".")+1)], "."); minor {
	case "3.7":
		built, err = b.Build(ctx, build.Etcd37)
	case "3.6":
		built, err = b.Build(ctx, build.Etcd36)
	case "3.5":
		built, err = b.Build(ctx, build.Etcd35)
	case "3.4":
		built, err = b.Etcd34(ctx)
	default:
		return built, fmt.Errorf("the lab has no etcd %q; it has 3.4, 3.5, 3.6 and 3.7", version)
	}
	if err != nil {
		return built, err
	}
	if strings.Count(version, ".") == 2 && version != built.Version {
		return built, fmt.Errorf("the lab's etcd of that minor version is %s, not %s", built.Version, version)
	}
	return built, nil
}
