// Package top shows the channels of a running daemon on a terminal, once a second, the
// worst first.
//
//	err := top.Watch(ctx, terminal, client, os.Stdin, os.Getenv)
//
// Messages change a model (model.go), which has no clock and asks nobody; view.go and
// detail.go draw it. So the tests show pages as they were looked at at certain times.
package top
