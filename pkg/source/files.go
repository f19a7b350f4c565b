package source

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
)

// ReadFiles reads objects from files, from all .yaml, .yml and .json files below directories, and from stdin for "-". What
// can't be read is a problem of the Set; an error means that a name given leads nowhere, or to nothing at all.
func ReadFiles(names []string, stdin io.Reader) (*Set, error) {
	s := &Set{}
	for _, name := range names {
		if name == "-" {
			if err := s.decode(stdin, "standard input"); err != nil {
				return nil, err
			}
			continue
		}
		if strings.Contains(name, "://") {
			return nil, fmt.Errorf("can't read %s: -f takes files and directories, and contacts no server; fetch it first", name)
		}
		info, err := os.Stat(name)
		if err != nil {
			return nil, fmt.Errorf("can't read files: %w", err)
		}
		if info.IsDir() {
			// The name may be a link; below it, links are not followed, so that none leads round in a circle.
			err = s.readTree(name + string(filepath.Separator))
		} else {
			err = s.readFile(name)
		}
		if err != nil {
			return nil, err
		}
	}
	return s, nil
}

// readTree reads a directory. One bad file in it is a problem; in a dump, others are not the less worth reading.
func (s *Set) readTree(root string) error {
	found := 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			s.unread(path, err)
			if d != nil && d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if d.IsDir() {
			return nil
		}
		switch filepath.Ext(path) {
		case ".yaml", ".yml", ".json":
		default:
			return nil
		}
		// What is no regular file may never end, or wait for somebody who writes. Links lead to files, for example in a volume.
		if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
			s.unread(path, fmt.Errorf("passed over: it is no regular file; name it itself to have it read"))
			return nil
		}
		found++
		if err := s.readFile(path); err != nil {
			s.unread(path, err)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("can't read directory %s: %w", root, err)
	}
	if found == 0 && len(s.Problems) == 0 {
		return fmt.Errorf("there are no .yaml, .yml or .json files below %s", root)
	}
	return nil
}

// unread tells of a file that can't be read. Any cluster might be in it.
func (s *Set) unread(path string, err error) {
	s.problem(path, err)
	s.unlist(kindEtcdMember, fmt.Errorf("%s was not read: %w", path, err))
}

func (s *Set) readFile(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return fmt.Errorf("can't read files: %w", err)
	}
	defer f.Close()
	return s.decode(f, name)
}

// decode reads a stream of YAML or JSON documents. A document that is no object is an error with what came before kept.
func (s *Set) decode(r io.Reader, from string) error {
	d := utilyaml.NewYAMLOrJSONDecoder(r, 4096)
	documents := 0
	for i := 1; ; i++ {
		var raw runtime.RawExtension
		err := d.Decode(&raw)
		if errors.Is(err, io.EOF) {
			break
		}
		where := from
		if i > 1 {
			where = fmt.Sprintf("%s, document %d", from, i)
		}
		if err != nil {
			return fmt.Errorf("%s is neither YAML nor JSON: %w", where, err)
		}
		// A document of nothing but comments is none.
		if len(raw.Raw) == 0 || string(raw.Raw) == "null" {
			continue
		}
		documents++
		if err := s.addJSON(raw.Raw, where); err != nil {
			return err
		}
	}
	if documents == 0 {
		return fmt.Errorf("%s is empty", from)
	}
	return nil
}
