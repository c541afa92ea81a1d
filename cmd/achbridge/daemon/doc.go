// Package daemon joins a node, discovery, and the requests of people and programs. It is
// what achbridge run runs.
//
//	h := daemon.Host{Places: places, Dir: localach.Shm, Version: "v1.2.3"}
//	d, err := h.New(cfg, log)  // opens all that can fail for a reason the operator can mend
//	err = daemon.Serve(ctx, d, hangups) // until ctx ends; a hangup has cfg read again
//
// It answers on the control socket (control, in control.go; requests and replies are
// package api), and over HTTP with a page, metrics and health. Only this package
// and achbridge ls see discovery and bridge together; adapt.go translates between them.
// No client imports this package.
package daemon
