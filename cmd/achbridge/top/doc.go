// Package top shows the channels of a running daemon on a terminal, the worst first. It updates the display once a
// second.
//
//	err := top.Watch(ctx, top.Config{Terminal: terminal, Client: client, In: os.Stdin, Env: os.Getenv})
//
// Messages change a model (model.go); view.go and detail.go draw it. The model has no
// clock and does no I/O, so tests can draw the page of any moment.
package top
