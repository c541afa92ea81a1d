// Package service has the common parts of long-running processes, the daemon and the hub. These are the control socket,
// an HTTP server, and the service manager's protocol. No client can block the HTTP server for others, and foreign web
// pages cannot read from it.
package service
