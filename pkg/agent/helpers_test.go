package agent

import (
	"errors"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/testr"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/etcdmember/kubectl-etcdmember/pkg/apis/druid/v1alpha1"
	"github.com/etcdmember/kubectl-etcdmember/pkg/etcd"
)

func lines(text string) iter.Seq[[]string] {
	return func(yield func([]string) bool) {
		for line := range strings.Lines(text) {
			if fields := strings.Fields(line); len(fields) > 0 && !yield(fields) {
				return
			}
		}
	}
}

func containsText(text, part string) bool { return strings.Contains(text, part) }

func testLog(t *testing.T) logr.Logger {
	return testr.NewWithOptions(t, testr.Options{Verbosity: 1})
}

const ownID etcd.ID = 0xa1

// answers are looks at a member that answers.
func answers(at time.Time, role stage) *observation {
	s := &etcd.Status{
		Header:  etcd.Header{ClusterID: 0xc1, MemberID: ownID, Revision: 7, RaftTerm: 3},
		Version: "3.7.3", Leader: 0xb2, DBSize: 20 << 10, DBSizeInUse: 16 << 10, DBSizeQuota: 2 << 30, RaftIndex: 11, RaftAppliedIndex: 11,
	}
	switch role {
	case stageLeader:
		s.Leader = ownID
	case stageLearner:
		s.Learner = true
	}
	return &observation{at: at, status: s}
}

func with(o *observation, change func(*observation)) *observation {
	change(o)
	return o
}

var (
	errTimeout = &etcd.CallError{Op: "its status", Endpoint: "https://127.0.0.1:2379", Err: status.Error(codes.DeadlineExceeded, "context deadline exceeded")}
	errDenied  = &etcd.CallError{Op: "its status", Endpoint: "https://127.0.0.1:2379", Err: status.Error(codes.PermissionDenied, "etcdserver: permission denied")}
	errRead    = errors.New("etcdserver: request timed out")
)

func frozen(at time.Time) *observation { return &observation{at: at, statusErr: errTimeout} }

// object is an EtcdMember that nobody has published to.
func object(uid string) *v1alpha1.EtcdMember {
	return &v1alpha1.EtcdMember{
		ObjectMeta: metav1.ObjectMeta{Name: "main-0", Namespace: "ns", UID: types.UID(uid), Generation: 1, ResourceVersion: "10"},
		Spec:       v1alpha1.EtcdMemberSpec{PodName: "main-0"},
	}
}
