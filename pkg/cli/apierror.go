package cli

import (
	"errors"
	"fmt"
	"net"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// explain is the error of a request to the API server: what was tried, why it failed, and what to do about it.
func explain(err error, format string, a ...any) error {
	return fmt.Errorf("can't %s: %w%s", fmt.Sprintf(format, a...), err, hint(err))
}

// hint is what a person can do about an error of a request, or nothing.
func hint(err error) string {
	var dns *net.DNSError
	switch {
	case apierrors.IsForbidden(err):
		return "; ask an administrator for the right, or choose another user with --context or --as"
	case apierrors.IsUnauthorized(err):
		return "; log in again, or choose another --context"
	case utilnet.IsConnectionRefused(err), utilnet.IsConnectionReset(err), errors.As(err, &dns):
		return "; is the cluster up, and is this the right --context?"
	default:
		return ""
	}
}

// isFieldConflict says whether an error of a server-side apply means that another manager owns a field with another value.
func isFieldConflict(err error) bool {
	var status apierrors.APIStatus
	if !apierrors.IsConflict(err) || !errors.As(err, &status) || status.Status().Details == nil {
		return false
	}
	for _, c := range status.Status().Details.Causes {
		if c.Type == metav1.CauseTypeFieldManagerConflict {
			return true
		}
	}
	return false
}

// exitWith ends the program with a code, and with an error that is printed if there is one.
func exitWith(code int, err error) error { return &CodeError{Code: code, Err: err} }
