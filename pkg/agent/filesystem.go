package agent

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// fileSystemTimeout bounds how long a file system is waited for: one that has lost its storage can hang for ever.
const fileSystemTimeout = 2 * time.Second

// errHangs: the file system did not answer in time, now or at an earlier look that still waits.
var errHangs = errors.New("the file system does not answer")

// fileSystemReader looks at the file system of one directory. A look that hangs is left behind, and none is begun until it ends.
type fileSystemReader struct {
	dir     string
	pending atomic.Bool
}

// read is the file system as it is now.
func (r *fileSystemReader) read() (*fileSystem, error) {
	if !r.pending.CompareAndSwap(false, true) {
		return nil, fmt.Errorf("looking at the file system of %s: %w", r.dir, errHangs)
	}
	type answer struct {
		fs  *fileSystem
		err error
	}
	answers := make(chan answer, 1)
	go func() {
		defer r.pending.Store(false)
		fs, err := statFileSystem(r.dir)
		answers <- answer{fs, err}
	}()
	timer := time.NewTimer(fileSystemTimeout)
	defer timer.Stop()
	select {
	case a := <-answers:
		return a.fs, a.err
	case <-timer.C:
		return nil, fmt.Errorf("looking at the file system of %s: %w", r.dir, errHangs)
	}
}

func statFileSystem(dir string) (*fileSystem, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return nil, fmt.Errorf("looking at the file system of %s: %w", dir, err)
	}
	size := int64(s.Bsize)
	fs := &fileSystem{capacity: int64(s.Blocks) * size, available: int64(s.Bavail) * size}
	mounts, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		fs.readOnly = s.Flags&unix.ST_RDONLY != 0
		return fs, nil
	}
	defer mounts.Close()
	readOnly, found := superReadOnly(mounts, dir)
	if !found {
		readOnly = s.Flags&unix.ST_RDONLY != 0
	}
	fs.readOnly = readOnly
	return fs, nil
}

// superReadOnly says whether the file system that the directory is on is read-only itself. ST_RDONLY can't tell that from
// a mount that is: the agent's own mount of the volume should be. Nor does it show a file system that has shut itself down after
// an error, which newer kernels mark as emergency_ro only. Lines of mountinfo are (proc_pid_mountinfo(5)):
//
//	36 35 98:0 /root /mount/point rw,noatime master:1 - ext4 /dev/sda1 rw,errors=remount-ro
func superReadOnly(mountinfo io.Reader, dir string) (readOnly, found bool) {
	deepest := -1
	lines := bufio.NewScanner(mountinfo)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		before, after, ok := strings.Cut(lines.Text(), " - ")
		fields, super := strings.Fields(before), strings.Fields(after)
		if !ok || len(fields) < 6 || len(super) < 3 {
			continue
		}
		// Later mounts of the same place cover earlier ones.
		point := unescapeMount(fields[4])
		if !contains(point, dir) || len(point) < deepest {
			continue
		}
		deepest, found, readOnly = len(point), true, false
		for option := range strings.SplitSeq(super[2], ",") {
			readOnly = readOnly || option == "ro" || option == "emergency_ro" || option == "shutdown"
		}
	}
	return readOnly, found
}

// unescapeMount undoes the kernel's octal escapes.
var unescapeMount = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace
