// Package images makes container images from static binaries, without a Dockerfile, a daemon or a registry.
package images

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// NonRoot is the user that the images' containers run as unless told otherwise, and its group.
const NonRoot = 65532

// Spec says what an image holds.
type Spec struct {
	// Ref is the name and tag that pods use.
	Ref string
	// Files maps paths in the image to files of the host.
	Files map[string]string
	// Entrypoint of the image.
	Entrypoint []string
}

// Archive is an image in a file, in the format of `docker save`.
type Archive struct {
	Ref  string
	Path string
	// Digest names the content, so that a node that has it need not import it again.
	Digest string
}

// Write makes the archive in dir. An archive with the same content is used as it is.
func Write(dir string, s Spec) (Archive, error) {
	ref, err := name.NewTag(s.Ref)
	if err != nil {
		return Archive{}, fmt.Errorf("naming an image: %w", err)
	}
	if s, err = withLibraries(s); err != nil {
		return Archive{}, err
	}
	digest, err := digestOf(s)
	if err != nil {
		return Archive{}, err
	}
	archive := Archive{Ref: ref.Name(), Path: filepath.Join(dir, fmt.Sprintf("%s-%s-%s.tar", filepath.Base(ref.RepositoryStr()), ref.TagStr(), digest[:12])), Digest: digest}
	if _, err := os.Stat(archive.Path); err == nil {
		return archive, nil
	}
	layer, err := layerOf(s)
	if err != nil {
		return Archive{}, err
	}
	img, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		return Archive{}, fmt.Errorf("building image %s: %w", s.Ref, err)
	}
	img, err = mutate.ConfigFile(img, &v1.ConfigFile{
		Architecture: runtime.GOARCH,
		OS:           "linux",
		Config: v1.Config{
			Entrypoint: s.Entrypoint,
			User:       fmt.Sprintf("%d:%d", NonRoot, NonRoot),
			WorkingDir: "/",
			Env:        []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/home/nonroot"},
		},
		RootFS: rootFS(img),
	})
	if err != nil {
		return Archive{}, fmt.Errorf("configuring image %s: %w", s.Ref, err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return Archive{}, fmt.Errorf("making room for images: %w", err)
	}
	tmp, err := os.CreateTemp(dir, ".image-")
	if err != nil {
		return Archive{}, fmt.Errorf("making room for image %s: %w", s.Ref, err)
	}
	defer os.Remove(tmp.Name())
	defer tmp.Close()
	if err := tarball.Write(ref, img, tmp); err != nil {
		return Archive{}, fmt.Errorf("writing image %s: %w", s.Ref, err)
	}
	if err := tmp.Chmod(0o644); err != nil {
		return Archive{}, fmt.Errorf("writing image %s: %w", s.Ref, err)
	}
	if err := os.Rename(tmp.Name(), archive.Path); err != nil {
		return Archive{}, fmt.Errorf("putting image %s in its place: %w", s.Ref, err)
	}
	return archive, nil
}

func rootFS(img v1.Image) v1.RootFS {
	// The image was made in memory a moment ago, so that reading its configuration can't fail.
	c, err := img.ConfigFile()
	if err != nil {
		panic(err)
	}
	return c.RootFS
}

// digestOf names the content of an image without making it.
func digestOf(s Spec) (string, error) {
	h := sha256.New()
	fmt.Fprintf(h, "layout 1\n%s\n%q\n", s.Ref, s.Entrypoint)
	for _, path := range sortedKeys(s.Files) {
		fmt.Fprintf(h, "%s\n", path)
		f, err := os.Open(s.Files[path])
		if err != nil {
			return "", fmt.Errorf("reading what goes into image %s: %w", s.Ref, err)
		}
		_, err = io.Copy(h, f)
		f.Close()
		if err != nil {
			return "", fmt.Errorf("reading what goes into image %s: %w", s.Ref, err)
		}
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// layerOf is the image's only layer. It is not compressed: it never crosses a network, and gzip would cost more time
// than all else.
func layerOf(s Spec) (v1.Layer, error) {
	var buf bytes.Buffer
	w := &layerWriter{tar: tar.NewWriter(&buf), seen: map[string]bool{"/": true, ".": true}}
	w.dir("/tmp", 0o1777, 0)
	w.dir("/home", 0o755, 0)
	w.dir("/home/nonroot", 0o700, NonRoot)
	for _, d := range []string{"/proc", "/sys", "/dev", "/etc", "/etc/ssl/certs", "/var/lib"} {
		w.dir(d, 0o755, 0)
	}
	w.file("/etc/passwd", 0o644, fmt.Appendf(nil, "root:x:0:0:root:/root:/sbin/nologin\nnonroot:x:%d:%d:nonroot:/home/nonroot:/sbin/nologin\n", NonRoot, NonRoot))
	w.file("/etc/group", 0o644, fmt.Appendf(nil, "root:x:0:\nnonroot:x:%d:\n", NonRoot))
	w.file("/etc/nsswitch.conf", 0o644, []byte("hosts: files dns\n"))
	for _, path := range sortedKeys(s.Files) {
		text, err := os.ReadFile(s.Files[path])
		if err != nil {
			return nil, fmt.Errorf("reading what goes into image %s: %w", s.Ref, err)
		}
		w.file(path, 0o755, text)
	}
	if w.err == nil {
		w.err = w.tar.Close()
	}
	if w.err != nil {
		return nil, fmt.Errorf("packing image %s: %w", s.Ref, w.err)
	}
	return static.NewLayer(buf.Bytes(), types.DockerUncompressedLayer), nil
}

// layerWriter writes a reproducible layer: same files, same bytes.
type layerWriter struct {
	tar  *tar.Writer
	seen map[string]bool
	err  error
}

func (w *layerWriter) dir(path string, mode int64, owner int) {
	if w.err != nil || w.seen[path] {
		return
	}
	w.dir(filepath.Dir(path), 0o755, 0)
	w.seen[path] = true
	w.header(&tar.Header{Typeflag: tar.TypeDir, Name: path[1:] + "/", Mode: mode, Uid: owner, Gid: owner})
}

func (w *layerWriter) file(path string, mode int64, text []byte) {
	w.dir(filepath.Dir(path), 0o755, 0)
	w.header(&tar.Header{Typeflag: tar.TypeReg, Name: path[1:], Mode: mode, Size: int64(len(text))})
	if w.err == nil {
		_, w.err = w.tar.Write(text)
	}
}

func (w *layerWriter) header(h *tar.Header) {
	if w.err == nil {
		h.ModTime = time.Unix(0, 0)
		w.err = w.tar.WriteHeader(h)
	}
}

func sortedKeys(m map[string]string) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
