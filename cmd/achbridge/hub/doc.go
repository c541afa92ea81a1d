// Package hub is what achbridge hub runs: an embedded nats-server that connects hosts which
// cannot reach each other directly.
//
//	d := hub.Directory("/var/lib/achbridge-hub")
//	id, err := d.Init("tls://hub.example.com")   // once
//	err = d.Add("robot", "robot.creds")          // a host and its credentials
//	s, err := hub.New(hub.Config{Dir: d, …})     // opens all that can fail for a reason the operator can mend
//	err = s.Run(ctx)
//
// The server has one account. Who may connect is in the directory's file hosts, which is looked
// at four times a second (members). Hosts connect to the front, which speaks TLS. It passes a connection on to
// the server once the connection has proved that it has a host's key (proof, guard), and then only messages that
// a host may send (speaker). The server gives the connection that host's permissions (package
// achbridge/bridge/hub). The hub makes the streams and consumers
// that hosts ask for (maker, requests), and deletes those of removed hosts (cleaner); all are in memory.
// The hub can read no frame and no control message: both are sealed at their ends.
package hub
