// Package ui is how the verbs of achbridge speak to a person at a terminal: tables,
// fields, colours, errors with their cure, exit codes, sizes and times as text.
//
//	t := ui.New(os.Stdout, os.Stderr)
//	t.Table([]string{"CHANNEL", "AGE"}, rows)       // what was asked for: stdout
//	t.Note("%d events are not kept any more", n)    // what is said about it: stderr
//	err := ui.Usage(err, "achbridge ls lists them") // an error, its cure, its exit code
//	t.Fail(err)
//	os.Exit(ui.ExitCode(err))
//
// The rules of the terminal stand at Terminal. The package knows nothing of channels
// or daemons.
package ui
