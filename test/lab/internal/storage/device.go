package storage

import (
	"fmt"
	"syscall"
)

func deviceOf(path string) (uint64, error) {
	var info syscall.Stat_t
	if err := syscall.Stat(path, &info); err != nil {
		return 0, fmt.Errorf("looking at %s: %w", path, err)
	}
	return info.Dev, nil
}
