// Package api has the requests and replies of the daemon's control socket, and the client
// that sends and reads them. Package daemon has the server.
//
//	c := api.New("/run/achbridge/control.sock")
//	var s api.StatusReply
//	_, err := c.Get(ctx, "/v1/status", &s) // errors.Is(err, api.ErrNoDaemon): nobody listens
//	for _, m := range s.Mirrors {
//		fmt.Println(m.Name, m.State)
//	}
//
// Requests and replies are JSON over HTTP. An error has a fix and an exit code (package ui). The type control in package
// daemon lists the paths.
package api
