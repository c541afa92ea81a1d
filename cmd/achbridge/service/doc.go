// Package service has what a process that stays needs beside its work, the daemon as well as
// the hub: its control socket, HTTP that nobody can block for others and that foreign web
// pages cannot read, and the service manager's protocol.
package service
