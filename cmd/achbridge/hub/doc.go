// Package hub implements achbridge hub: an embedded nats-server that connects hosts which
// cannot reach each other directly.
//
//	d := hub.Directory("/var/lib/achbridge-hub")
//	id, err := d.Init("tls://hub.example.com")   // once
//	err = d.Add("robot", "robot.creds")          // a host and its credentials
//	s, err := hub.New(hub.Config{Dir: d, …})     // opens everything that can fail for a reason the operator can fix
//	err = s.Run(ctx)
//
// The server has one account. The directory's file hosts lists the hosts that may connect. The hub checks the
// file for changes four times a second (guard). Hosts connect to the front by TLS. The front connects a host to the
// server once the host has proved that it has its key (proof, guard). It passes on only messages that a host
// may send (speaker). The server gives the connection that host's permissions (package achbridge/bridge/hub).
// The hub creates the streams and consumers that hosts request (maker, requests), all in memory. It deletes
// those of removed hosts (cleaner). The hub cannot read frames or control messages, which are sealed end to end.
package hub
