// Package api is what crosses the control socket of a daemon, and the client that asks
// there. The daemon's side of it is package daemon.
//
//	c := api.New("/run/achbridge/control.sock")
//	var s api.StatusReply
//	_, err := c.Get(ctx, "/v1/status", &s) // errors.Is(err, api.ErrNoDaemon): nobody listens
//	for _, m := range s.Mirrors {
//		fmt.Println(m.Name, m.State)
//	}
//
// Requests and replies are JSON over HTTP; an error has its cure and its exit code (see
// ui). The paths are listed at control, in package daemon.
package api
