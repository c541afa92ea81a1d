// Package hosts emulates hosts by namespaces and joins them by the links of package
// testnet, whose documentation explains it. It needs Linux 5.8, root, /dev/net/tun
// and overlayfs.
//
//	lab.go       Start, Close: a set of hosts
//	node.go      Main, and a host's first process (PID 1)
//	mounts.go    a host's files      tap.go    a host's interface
//	ethernet.go  the switch          timer.go  the switch's timer
//	listen.go    frames of hosts     udp.go    their UDP packets
//	cable.go     cables of hosts
//	command.go   programs on a host  socket.go  sockets in its network
//	build.go     this repository's programs, for tests
//	testing.go   a lab that ends with a test
package hosts
