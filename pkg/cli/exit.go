package cli

import (
	"context"
	"errors"
	"fmt"
)

// Exit codes. Scripts live on them: they are documented in docs/exit-codes.md and never change their meaning.
const (
	// ExitOK: done, or healthy.
	ExitOK = 0
	// ExitFindings: Degraded or Unhealthy; or the task failed or was aborted; or, for diff, there is a difference.
	ExitFindings = 1
	// ExitError: an error, a wrong usage, or a verdict of Unknown.
	ExitError = 2
	// ExitRefused: refused by a safety rule, or rejected.
	ExitRefused = 3
	// ExitTimeout: the time given ran out; a task goes on.
	ExitTimeout = 124
	// ExitInterrupted: interrupted; a task goes on.
	ExitInterrupted = 130
)

// CodeError ends the program with a code. Err is printed if there is one.
type CodeError struct {
	Code int
	Err  error
}

// Error is the text that is printed.
func (e *CodeError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit code %d", e.Code)
	}
	return e.Err.Error()
}

// Unwrap returns the error that is printed.
func (e *CodeError) Unwrap() error { return e.Err }

// refusef is an error of a safety rule, or of an object that is not ours to change.
func refusef(format string, a ...any) error {
	return &CodeError{Code: ExitRefused, Err: fmt.Errorf(format, a...)}
}

// exitCode returns the code that an error ends the program with.
func exitCode(err error) int {
	var e *CodeError
	switch {
	case err == nil:
		return ExitOK
	case errors.As(err, &e):
		return e.Code
	case errors.Is(err, context.Canceled):
		return ExitInterrupted
	case errors.Is(err, context.DeadlineExceeded):
		return ExitTimeout
	default:
		return ExitError
	}
}
