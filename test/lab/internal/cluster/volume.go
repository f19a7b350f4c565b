package cluster

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/etcdmember/kubectl-etcdmember/test/lab/internal/control"
)

// ballast is the file that fills a volume.
const ballast = ".lab-ballast"

// VolumeOf says what a claim's file system holds.
func (m *Manager) VolumeOf(ctx context.Context, namespace, claim string) (control.Volume, error) {
	pv, err := m.volumeOf(ctx, namespace, claim)
	if err != nil {
		return control.Volume{}, err
	}
	v := control.Volume{Path: pv.Spec.Local.Path}
	for _, t := range pv.Spec.NodeAffinity.Required.NodeSelectorTerms {
		for _, e := range t.MatchExpressions {
			v.Node = strings.Join(e.Values, ",")
		}
	}
	var fs syscall.Statfs_t
	if err := syscall.Statfs(v.Path, &fs); err != nil {
		return v, fmt.Errorf("measuring the volume of claim %s/%s: %w", namespace, claim, err)
	}
	v.Size, v.Available = fs.Blocks*uint64(fs.Bsize), fs.Bavail*uint64(fs.Bsize)
	return v, nil
}

func (m *Manager) volumeOf(ctx context.Context, namespace, claim string) (*corev1.PersistentVolume, error) {
	pvc, err := m.client.CoreV1().PersistentVolumeClaims(namespace).Get(ctx, claim, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("looking for claim %s/%s: %w", namespace, claim, err)
	}
	if pvc.Spec.VolumeName == "" {
		return nil, fmt.Errorf("claim %s/%s is not bound", namespace, claim)
	}
	pv, err := m.client.CoreV1().PersistentVolumes().Get(ctx, pvc.Spec.VolumeName, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("looking for the volume of claim %s/%s: %w", namespace, claim, err)
	}
	// Only the lab's own volumes are ever written to.
	if pv.Spec.Local == nil || filepath.Dir(pv.Spec.Local.Path) != m.c.Layout.Volumes() {
		return nil, fmt.Errorf("volume %s of claim %s/%s is not one of the lab's", pv.Name, namespace, claim)
	}
	return pv, nil
}

// pathIn is the folder that the fault's volume is mounted on. Without a name the pod must have one volume only.
func (m *Manager) pathIn(ctx context.Context, p pod, volume string) (string, error) {
	claim := p.claims[volume]
	if volume == "" && len(p.claims) == 1 {
		for _, claim = range p.claims {
		}
	}
	if claim == "" {
		return "", fmt.Errorf("pod %s/%s has %d volumes with claims, none called %q", p.ns, p.name, len(p.claims), volume)
	}
	pv, err := m.volumeOf(ctx, p.ns, claim)
	if err != nil {
		return "", err
	}
	return pv.Spec.Local.Path, nil
}

// fill takes up all that is free on a pod's volume.
func (m *Manager) fill(ctx context.Context, p pod, f control.Fault) (func(context.Context) error, error) {
	dir, err := m.pathIn(ctx, p, f.Volume)
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, ballast)
	undo := func(context.Context) error {
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("freeing the volume of pod %s/%s: %w", p.ns, p.name, err)
		}
		return nil
	}
	if err := takeUp(path, f.Leave); err != nil {
		return nil, errors.Join(fmt.Errorf("filling the volume of pod %s/%s: %w", p.ns, p.name, err), undo(ctx))
	}
	return undo, nil
}

// takeUp makes a file of all free blocks but leave bytes. It allocates without writing, so that it costs no time, in
// ever smaller portions, because a file system needs some of its last blocks to remember the others.
func takeUp(path string, leave int64) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("making the ballast: %w", err)
	}
	defer f.Close()
	var size int64
	for portion := int64(1) << 30; portion >= 4<<10; {
		var fs syscall.Statfs_t
		if err := syscall.Fstatfs(int(f.Fd()), &fs); err != nil {
			return fmt.Errorf("measuring what is free: %w", err)
		}
		if int64(fs.Bavail)*fs.Bsize-portion < leave {
			portion /= 2
			continue
		}
		switch err := syscall.Fallocate(int(f.Fd()), 0, size, portion); {
		case err == nil:
			size += portion
		case errors.Is(err, syscall.ENOSPC):
			portion /= 2
		default:
			return fmt.Errorf("allocating the ballast: %w", err)
		}
	}
	return nil
}

// corrupt damages a file on a pod's volume in place, under the feet of whoever has it open.
func (m *Manager) corrupt(ctx context.Context, p pod, f control.Fault) error {
	if f.Corruption == nil || !filepath.IsLocal(f.Corruption.Path) {
		return errors.New("a corruption needs the path of a file in the volume")
	}
	dir, err := m.pathIn(ctx, p, f.Volume)
	if err != nil {
		return err
	}
	if err := corruptFile(filepath.Join(dir, f.Corruption.Path), *f.Corruption); err != nil {
		return fmt.Errorf("corrupting %s of pod %s/%s: %w", f.Corruption.Path, p.ns, p.name, err)
	}
	return nil
}

func corruptFile(path string, c control.Corruption) error {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	used, err := usedBytes(file)
	if err != nil {
		return err
	}
	switch c.Kind {
	case control.CorruptValue:
		return replaceAll(file, c.From, c.To)
	case control.CorruptPages:
		noise := make([]byte, used/3)
		_, _ = rand.Read(noise) // never fails
		_, err = file.WriteAt(noise, used/3)
	case control.CorruptMeta:
		_, err = file.WriteAt(make([]byte, 2*os.Getpagesize()), 0)
	case control.CorruptTruncate:
		err = file.Truncate(used / 2)
	default:
		err = fmt.Errorf("no corruption is called %q", c.Kind)
	}
	if err != nil {
		return err
	}
	return file.Sync()
}

// usedBytes is how much of a bbolt database has ever been used: the file is longer, for it grows by 16 MiB at a time, and
// to damage what is not used would do no harm. Of any other file all is used.
func usedBytes(file *os.File) (int64, error) {
	info, err := file.Stat()
	if err != nil {
		return 0, err
	}
	// A meta page: a header of 16 bytes, then magic, version, page size and flags of 4 bytes each, the root bucket and the
	// free list (24 bytes), the first page that was never used, the transaction.
	const magic, metaOffset, pagesOffset, transactionOffset = 0xED0CDAED, 16, 56, 64
	used, newest := info.Size(), uint64(0)
	for page := range int64(2) {
		text := make([]byte, 80)
		if _, err := file.ReadAt(text, page*int64(os.Getpagesize())); err != nil {
			break
		}
		if binary.NativeEndian.Uint32(text[metaOffset:]) != magic {
			break
		}
		if transaction := binary.NativeEndian.Uint64(text[transactionOffset:]); transaction >= newest {
			newest = transaction
			used = int64(binary.NativeEndian.Uint64(text[pagesOffset:])) * int64(binary.NativeEndian.Uint32(text[metaOffset+8:]))
		}
	}
	return min(used, info.Size()), nil
}

func replaceAll(file *os.File, from, to []byte) error {
	if len(from) == 0 || len(from) != len(to) {
		return fmt.Errorf("%d bytes can't take the place of %d", len(to), len(from))
	}
	text, err := os.ReadFile(file.Name())
	if err != nil {
		return err
	}
	found := 0
	for at := 0; ; {
		i := bytes.Index(text[at:], from)
		if i < 0 {
			break
		}
		// In place, and only there: a write of more would undo what the owner writes at the same time.
		if _, err := file.WriteAt(to, int64(at+i)); err != nil {
			return err
		}
		at += i + len(from)
		found++
	}
	if found == 0 {
		return fmt.Errorf("the file does not hold %q", from)
	}
	return file.Sync()
}
