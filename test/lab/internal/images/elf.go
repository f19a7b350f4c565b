package images

import (
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"strings"
)

// libraries are the files of the host that a dynamically linked binary needs beside it, by their paths in the image.
// A static binary, as all that the lab builds are, needs none; Debian's etcd needs the C library. It is the host's own,
// since the binary is from the host's own Debian.
func libraries(binary string) (map[string]string, error) {
	f, err := elf.Open(binary)
	if err != nil {
		if format := new(elf.FormatError); errors.As(err, &format) || errors.Is(err, io.EOF) {
			return nil, nil // not a program
		}
		return nil, fmt.Errorf("looking for the libraries of %s: %w", binary, err)
	}
	defer f.Close()
	loader, err := loaderOf(f)
	if err != nil || loader == "" {
		return nil, err
	}
	// The loader lies among the libraries of its architecture, and is linked from where binaries look for it.
	resolved, err := filepath.EvalSymlinks(loader)
	if err != nil {
		return nil, fmt.Errorf("finding the loader of %s: %w", binary, err)
	}
	found := map[string]string{loader: resolved}
	return found, addNeeded(f, filepath.Dir(resolved), found)
}

func loaderOf(f *elf.File) (string, error) {
	for _, p := range f.Progs {
		if p.Type != elf.PT_INTERP {
			continue
		}
		text := make([]byte, p.Filesz)
		if _, err := p.ReadAt(text, 0); err != nil {
			return "", fmt.Errorf("reading which loader a binary asks for: %w", err)
		}
		return strings.TrimRight(string(text), "\x00"), nil
	}
	return "", nil
}

// addNeeded adds the libraries that f asks for, and those that they ask for.
func addNeeded(f *elf.File, dir string, found map[string]string) error {
	names, err := f.ImportedLibraries()
	if err != nil {
		return fmt.Errorf("reading which libraries a binary asks for: %w", err)
	}
	for _, name := range names {
		path := filepath.Join(dir, name)
		in := "/lib/" + name
		if found[in] != "" {
			continue
		}
		library, err := elf.Open(path)
		if err != nil {
			return fmt.Errorf("opening a library: %w", err)
		}
		found[in] = path
		err = addNeeded(library, dir, found)
		library.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// withLibraries is the spec with the libraries of its binaries added.
func withLibraries(s Spec) (Spec, error) {
	all := maps.Clone(s.Files)
	for _, binary := range s.Files {
		more, err := libraries(binary)
		if err != nil {
			return s, fmt.Errorf("making image %s: %w", s.Ref, err)
		}
		maps.Copy(all, more)
	}
	s.Files = all
	return s, nil
}
