// Package ui formats the output of achbridge's commands for a terminal: tables, fields, colours, errors with their fix,
// exit codes, sizes and times.
//
//	t := ui.New(os.Stdout, os.Stderr)
//	t.Table([]string{"CHANNEL", "AGE"}, rows)       // what was asked for: stdout
//	t.Note("%d events are not kept any more", n)    // what is said about it: stderr
//	err := ui.Usage(err, "achbridge ls lists them") // an error, its cure, its exit code
//	t.Fail(err)
//	os.Exit(ui.ExitCode(err))
//
// The type Terminal documents the rules of the output. The package does not depend on channels or daemons.
package ui
