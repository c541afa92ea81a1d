// Package ui formats the output of achbridge's commands for a terminal: tables, fields, colours, errors with their fix,
// exit codes, sizes and times.
//
//	t := ui.New(os.Stdout, os.Stderr)
//	t.Table([]string{"CHANNEL", "AGE"}, rows)       // results: stdout
//	t.Note("%d events are not kept any more", n)    // notes: stderr
//	err := ui.Usage(err, "achbridge ls lists them") // an error, its fix, its exit code
//	t.Fail(err)
//	os.Exit(ui.ExitCode(err))
//
// The type Terminal documents the rules of the output. The package does not depend on channels or daemons.
package ui
