package main

import "errors"

// Exit codes: scripts and service units rely on them.
const (
	exitOK      = 0
	exitFailure = 1 // it was asked rightly and did not work
	exitUsage   = 2 // wrong arguments or configuration: the same call fails again
	exitNothing = 3 // nothing of that name, or nothing at all, was found
	exitOver    = 4 // what was measured is over the limit that was given
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

func failed(err error, cure string) error  { return &failure{err, cure, exitFailure} }
func misused(err error, cure string) error { return &failure{err, cure, exitUsage} }
func nothing(err error, cure string) error { return &failure{err, cure, exitNothing} }
func tooMuch(err error, cure string) error { return &failure{err, cure, exitOver} }

// exitCode returns the code of the outermost failure in err; any other error
// is exitFailure.
func exitCode(err error) int {
	if err == nil {
		return exitOK
	}
	if f, ok := errors.AsType[*failure](err); ok {
		return f.code
	}
	return exitFailure
}

// cureIn is the cure of the outermost failure in err, "" when there is none.
func cureIn(err error) string {
	if f, ok := errors.AsType[*failure](err); ok {
		return f.cure
	}
	return ""
}
