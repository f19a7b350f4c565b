package images_test

import (
	"archive/tar"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/etcdmember/kubectl-etcdmember/test/lab/internal/images"
)

// An image holds its binary and a user to run it as; the same content makes the same archive, another one another.
func TestWrite(t *testing.T) {
	dir := t.TempDir()
	binary := filepath.Join(dir, "binary")
	write := func(text string) images.Archive {
		t.Helper()
		if err := os.WriteFile(binary, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
		archive, err := images.Write(filepath.Join(dir, "images"), images.Single("etcdmember.local/x:dev", "x", binary))
		if err != nil {
			t.Fatal(err)
		}
		return archive
	}
	first, again, other := write("one"), write("one"), write("two")
	if first != again {
		t.Errorf("the same content made %v and %v", first, again)
	}
	if other.Digest == first.Digest || other.Path == first.Path {
		t.Errorf("another content made the same: %v", other)
	}
	files := contents(t, first.Path)
	if files["usr/local/bin/x"] != "one" {
		t.Errorf("the binary holds %q", files["usr/local/bin/x"])
	}
	for _, want := range []string{"etc/passwd", "etc/group", "tmp/", "home/nonroot/", "etc/ssl/certs/"} {
		if _, ok := files[want]; !ok {
			t.Errorf("the image has no %s", want)
		}
	}
}

// A dynamically linked binary comes with its loader and its libraries.
func TestDynamicBinary(t *testing.T) {
	dir := t.TempDir()
	archive, err := images.Write(dir, images.Single("etcdmember.local/x:dev", "ls", "/bin/ls"))
	if err != nil {
		t.Fatal(err)
	}
	libraries := 0
	for name := range contents(t, archive.Path) {
		if match, _ := filepath.Match("lib*/*.so*", name); match {
			libraries++
		}
	}
	if libraries < 2 {
		t.Errorf("the image of a dynamic binary has %d libraries, want a loader and a C library at least", libraries)
	}
}

// contents maps the paths in an image to what is there.
func contents(t *testing.T, path string) map[string]string {
	t.Helper()
	img, err := tarball.ImageFromPath(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	layers, err := img.Layers()
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for _, layer := range layers {
		text, err := layer.Uncompressed()
		if err != nil {
			t.Fatal(err)
		}
		defer text.Close()
		for r := tar.NewReader(text); ; {
			h, err := r.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(r)
			if err != nil {
				t.Fatal(err)
			}
			files[h.Name] = string(body)
		}
	}
	return files
}
