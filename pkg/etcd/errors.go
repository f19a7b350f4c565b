package etcd

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// CallError is a question to a member that was not answered as asked. The predicates of this package say what it means.
type CallError struct {
	// Op says what was asked, for example "status".
	Op string
	// Endpoint is the member's client URL.
	Endpoint string
	// Err is why, usually a status of gRPC's.
	Err error
}

// Error says what was asked of whom, and why it failed.
func (e *CallError) Error() string {
	return fmt.Sprintf("asking etcd at %s for %s: %s", e.Endpoint, e.Op, describe(e.Err))
}

// Unwrap gives errors.Is and errors.As the cause.
func (e *CallError) Unwrap() error { return e.Err }

// describe leaves out gRPC's framing, which tells a reader nothing.
func describe(err error) string {
	st, ok := grpcStatus(err)
	if !ok {
		return err.Error()
	}
	if st.Code() == codes.DeadlineExceeded {
		return "no answer in time"
	}
	message := st.Message()
	if quoted, ok := strings.CutPrefix(message, "connection error: desc = "); ok {
		if cause, err := strconv.Unquote(quoted); err == nil {
			message = strings.TrimPrefix(strings.TrimPrefix(cause, "transport: "), "Error while dialing: ")
		}
	}
	return message
}

// grpcStatus finds the status in err's chain. It differs from status.FromError in that the message stays the server's own.
func grpcStatus(err error) (*status.Status, bool) {
	var carrier interface{ GRPCStatus() *status.Status }
	if err == nil || !errors.As(err, &carrier) {
		return nil, false
	}
	return carrier.GRPCStatus(), true
}

// says whether the server's message is that of one of etcd's errors. Messages and not codes are compared: codes changed
// between versions (a learner's refusal was Unavailable in 3.4 and 3.5, and is FailedPrecondition since).
func says(err error, known ...error) bool {
	st, ok := grpcStatus(err)
	if !ok {
		return false
	}
	for _, k := range known {
		if st.Message() == rpctypes.ErrorDesc(k) {
			return true
		}
	}
	return false
}

// IsNotSupportedForLearner: the member is a learner, and a learner does not answer this question. Not a failure.
func IsNotSupportedForLearner(err error) bool {
	return says(err, rpctypes.ErrGRPCNotSupportedForLearner)
}

// IsPermissionDenied: the member answers, but not to us: its authentication is on and our user may not ask this, or we
// are no user of it. What was asked is then unknown, which is neither good nor bad.
func IsPermissionDenied(err error) bool {
	if says(err, rpctypes.ErrGRPCUserEmpty, rpctypes.ErrGRPCInvalidAuthToken, rpctypes.ErrGRPCAuthOldRevision) {
		return true
	}
	st, ok := grpcStatus(err)
	return ok && (st.Code() == codes.PermissionDenied || st.Code() == codes.Unauthenticated)
}

// IsNotAnswering: no etcd answered in time: nothing listens, the connection broke, the TLS handshake failed, or the
// deadline passed. That etcd answers that it can't (no leader, too busy) is not this.
func IsNotAnswering(err error) bool {
	if errors.Is(err, context.DeadlineExceeded) {
		return true
	}
	st, ok := grpcStatus(err)
	if !ok {
		return false
	}
	switch st.Code() {
	case codes.DeadlineExceeded:
		return true
	case codes.Unavailable:
		return !strings.HasPrefix(st.Message(), "etcdserver: ")
	default:
		return false
	}
}

// IsNoLeader: the member answers that it knows no leader, or lost it while answering.
func IsNoLeader(err error) bool {
	return says(err, rpctypes.ErrGRPCNoLeader, rpctypes.ErrGRPCLeaderChanged,
		rpctypes.ErrGRPCTimeoutDueToLeaderFail, rpctypes.ErrGRPCTimeoutDueToConnectionLost)
}

// IsNotLeader: only the leader does this, and the member is not it.
func IsNotLeader(err error) bool { return says(err, rpctypes.ErrGRPCNotLeader) }

// IsCorrupt: a member of the cluster, not necessarily this one, has raised the alarm CORRUPT, so that all refuse to serve.
func IsCorrupt(err error) bool { return says(err, rpctypes.ErrGRPCCorrupt) }

// IsCompacted: the revision that was asked for has been compacted away.
func IsCompacted(err error) bool { return says(err, rpctypes.ErrGRPCCompacted) }

// IsFutureRevision: the member has not reached the revision that was asked for.
func IsFutureRevision(err error) bool { return says(err, rpctypes.ErrGRPCFutureRev) }
