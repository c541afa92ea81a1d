// Package daemon runs a node with discovery and serves the requests of people and
// programs. It implements achbridge run.
//
//	h := daemon.Host{Places: places, Dir: localach.Shm, Version: "v1.2.3"}
//	d, err := h.New(cfg, log)  // opens everything that can fail for a reason the operator can fix
//	err = daemon.Serve(ctx, d, hangups) // until ctx ends; reloads the configuration at a hangup
//
// The daemon answers requests on the control socket (control.go; package api defines requests
// and replies). Over HTTP it serves a web page, metrics and health checks. Only this package
// and achbridge ls use both discovery and bridge; adapt.go converts between their types.
// No client imports this package.
package daemon
