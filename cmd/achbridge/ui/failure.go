package ui

import "errors"

// Exit codes: scripts and service units rely on them.
const (
	exitOK      = iota
	exitFailure // the command was right and did not work
	ExitUsage   // wrong arguments or configuration: the same command fails again
	ExitNothing // nothing of that name, or nothing at all, was found
	exitOver    // what was measured is over the limit that was given
)

// failure is an error for the person at the terminal: what went wrong with
// which thing, the cure (a sentence or a command, may be empty), and the exit
// code.
type failure struct {
	err  error
	cure string
	code int
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

// Failure is an error of a command that was right and did not work.
func Failure(err error, cure string) error { return &failure{err, cure, exitFailure} }

// Usage is an error of wrong arguments or a wrong configuration.
func Usage(err error, cure string) error { return &failure{err, cure, ExitUsage} }

// NotFound is an error about something that does not exist.
func NotFound(err error, cure string) error { return &failure{err, cure, ExitNothing} }

// OverLimit is an error about a measured value above the given limit.
func OverLimit(err error, cure string) error { return &failure{err, cure, exitOver} }

// ExitCode returns the code of the outermost failure in err; any other error
// is exitFailure.
func ExitCode(err error) int {
	if err == nil {
		return exitOK
	}
	if f, ok := errors.AsType[*failure](err); ok {
		return f.code
	}
	return exitFailure
}

// Cure is the cure of the outermost failure in err, "" when there is none.
func Cure(err error) string {
	if f, ok := errors.AsType[*failure](err); ok {
		return f.cure
	}
	return ""
}
