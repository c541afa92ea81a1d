package ui

import (
	"errors"
	"io/fs"
)

// Exit codes. Scripts and service units rely on them.
const (
	exitOK      = iota
	exitFailure // the command was valid, but failed
	ExitUsage   // wrong arguments or configuration: the same command fails again
	ExitNothing // no object of that name, or none at all, was found
	exitOver    // the measured value is above the given limit
	exitUnknown // the command may have had its effect, or not
)

// failure is an error for the user: the object and the problem, a fix (a sentence or a command; may be empty), and the
// exit code.
type failure struct {
	err  error
	fix  string
	code int
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

// Failure returns an error of a valid command that failed.
func Failure(err error, fix string) error { return &failure{err, fix, exitFailure} }

// Usage returns an error about wrong arguments or a wrong configuration.
func Usage(err error, fix string) error { return &failure{err, fix, ExitUsage} }

// NotFound returns an error about an object that does not exist.
func NotFound(err error, fix string) error { return &failure{err, fix, ExitNothing} }

// File returns an error about a file of the command line or configuration: NotFound if it does not exist, otherwise Usage.
func File(err error, fix string) error {
	if errors.Is(err, fs.ErrNotExist) {
		return NotFound(err, fix)
	}
	return Usage(err, fix)
}

// OverLimit returns an error about a measured value above the given limit.
func OverLimit(err error, fix string) error { return &failure{err, fix, exitOver} }

// Unknown returns an error of a command that may have had its effect.
func Unknown(err error, fix string) error { return &failure{err, fix, exitUnknown} }

// Status returns an error with the exit code of another program.
func Status(code int, err error, fix string) error { return &failure{err, fix, code} }

// ExitCode returns the code of the outermost failure in err, and exitFailure for other errors.
func ExitCode(err error) int {
	if err == nil {
		return exitOK
	}
	if f, ok := errors.AsType[*failure](err); ok {
		return f.code
	}
	return exitFailure
}

// Fix returns the fix of the outermost failure in err, "" if there is none.
func Fix(err error) string {
	if f, ok := errors.AsType[*failure](err); ok {
		return f.fix
	}
	return ""
}
