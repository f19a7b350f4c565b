package lab_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/etcdmember/kubectl-etcdmember/test/lab"
)

func TestMain(m *testing.M) { lab.Main(m) }

// eventually asks until it is so, and fails the test if it isn't within the time.
func eventually(t *testing.T, within time.Duration, what string, isSo func() error) {
	t.Helper()
	deadline := time.Now().Add(within)
	for {
		err := isSo()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %s: %v", what, within, err)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// put writes through the members with these pods, or through any.
func put(t *testing.T, e *lab.Etcd, key, value string, within time.Duration, pods ...string) error {
	t.Helper()
	c := e.Client(t, pods...)
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	if _, err := c.Put(ctx, key, value); err != nil {
		return fmt.Errorf("putting %s through %v: %w", key, pods, err)
	}
	return nil
}
