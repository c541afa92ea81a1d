// Package hosts makes hosts out of namespaces and joins them by the links of
// package testnet, whose documentation explains it. Linux 5.8 or newer, root,
// /dev/net/tun and overlayfs.
//
//	lab.go       Start, Close: a set of hosts
//	node.go      Main, and a host's first process (PID 1)
//	mounts.go    its files          tap.go  its interface
//	ethernet.go  the switch         timer.go  its clock
//	listen.go    what hosts send     cable.go  pulled out and put in
//	command.go   programs on a host  socket.go  sockets in its network
//	build.go     this repository's programs, for tests
//	testing.go   a lab that ends with a test
package hosts
