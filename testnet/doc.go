// Package testnet emulates networks, for tests in virtual time and for real
// processes on this machine. Both use the same model of a link.
//
// # The model
//
// A [Link] is one direction: a tail-drop queue of bytes, a transmitter with a
// rate, and a wire with delay, jitter, loss (random or in bursts,
// Gilbert-Elliott), duplication and reordering. [Params] defines them. A Link is
// pure: the caller passes the time and collects the packets that have arrived.
// The same seed and calls give the same result, and changing one parameter does
// not change the random decisions for others. Parameters may change while packets
// are in flight: a lower rate applies to queued packets, a cut drops packets on
// the wire.
//
//	packet ──> [ queue | transmitter ] ──> wire ──> arrival
//	              │ overflow, mtu, cut       │ loss, dup, reorder, delay, jitter
//
// The text form, read by [ParseParams] and printed by Params.String, is
//
//	delay=10ms,jitter=2ms,rate=1mbit,queue=64KiB,mtu=1280,loss=1%,burst=3,dup=1%,reorder=1%,cut
//
// For radio links the transmitter has, instead of one constant rate:
//
//	rate=10mbit,stall=5ms/25ms          sends nothing for 5 ms of every 25 ms
//	rate=7mbit,fade=20s/10s/12kbit      sends at 12 kbit/s for the last 10 s of every 20 s
//	trace=FILE,from=10s                 a recording ([Trace]); FILE.up and FILE.down are the two directions
//	wifi=good|busy|edge,air=NAME        a Wi-Fi station; links with the same NAME share the air
//	wifi=fit-campus|fit-campus-tcp|fit-home-2g4|fit-home-5g  stations fitted to published delays
//
// Their types document the limits of each model; for wifi see wifi.go.
//
// Rates are decimal bits per second, sizes binary bytes. A packet counts with
// its UDP and IP headers: payload + 28 bytes, 48 for IPv6.
//
// A [Mesh] joins hosts by such links. Parameters apply to all packets that a host
// sends. A direction such as "robot>pc" can be given its own parameters, and then
// has its own queue. A host that is cut neither sends nor receives. All sockets
// of a host share its link, as several senders share a bottleneck.
//
// # In memory
//
// A [Network] has sockets (net.PacketConn) over a mesh, for code under
// testing/synctest. Its times are exact there, and a minute costs milliseconds.
//
//	synctest.Test(t, func(t *testing.T) {
//		n := testnet.NewNetwork(seed)
//		robot := n.Host("robot", testnet.Params{Delay: 10 * time.Millisecond, Rate: 1e6})
//		pc := n.Host("pc", testnet.Params{Delay: 10 * time.Millisecond})
//		a, err := robot.Listen(8076)   // a *testnet.Conn; addresses are *net.UDPAddr
//		b, err := pc.Listen(0)
//		err = n.Change("robot", "loss=5%,burst=3")  // or "robot>pc", or "" for all
//		n.Tap(func(e testnet.Event) { … })          // called for each packet sent, arrived or discarded
//	})
//
// Close the sockets, and whatever runs on them, before the bubble ends.
// Simultaneous arrivals are delivered in the order of sending. Packets that
// several goroutines send at the same instant are delivered in the order in which
// the goroutines ran. A test that must be exact to the packet sends them at
// different times.
//
// A [Hub] is a hub in memory that behaves like the one that package bridge/hub reaches through
// NATS: it has byte streams, and the newest frame of each channel, over lines with a delay and a
// rate. It can be cut, stalled, and made to deceive its hosts.
//
//	hub := testnet.NewHub(1 << 20)
//	robot := hub.Host("robot", testnet.Params{Delay: 10 * time.Millisecond, Rate: 1e6}, testnet.Params{})
//	hub.Deceive(testnet.Deceit{Frames: testnet.Replays})
//
// Package testnet/hubtest has the contract tests of this hub and the real one.
//
// # Real hosts
//
// Package testnet/hosts emulates hosts by namespaces. Each host has its own
// network, processes (its own PID 1), host name, System V IPC, /dev/shm, /run, and
// its own changes to /etc and /var/lib. It shares all other files with this
// machine. Its interface (eth0, a TAP device) is connected to an Ethernet switch
// in the process that started the hosts, which applies the model. Multicast
// reaches all hosts, so mDNS works. Names are resolved by /etc/hosts. The hosts
// know each other's hardware addresses from the start. ARP, neighbour discovery
// and group membership skip the model unless the link is cut. All hosts end with
// the process that started them. The package needs root and /dev/net/tun, but not
// sch_netem.
//
//	func TestMain(m *testing.M) {
//		hosts.Main() // runs if this process is the first process of a host
//		os.Exit(m.Run())
//	}
//
//	func TestMirror(t *testing.T) {
//		lab := hosts.StartTest(t, hosts.Config{Hosts: []string{"robot", "pc"}, Link: "delay=10ms"})
//		daemon := lab.Command("robot", "achbridge", "run") // as an *exec.Cmd
//		err := daemon.Start()
//		err = lab.Change("robot", "cut")
//		err = daemon.Process.Signal(syscall.SIGSTOP) // the daemon itself
//	}
//
// Times are as exact as the machine allows: packets are never early, and 50 to
// 200 µs late on an idle machine.
//
// # At the command line
//
// Program testnet/lab starts such hosts for scripts and people:
//
//	go run ./testnet/lab run --hosts robot,pc --link delay=10ms,rate=1mbit,queue=64KiB,loss=1% -- ./script.sh
//
// The script runs on this machine, with the command lab on its PATH: lab exec
// HOST CMD…, lab link [HOST|'A>B'] [cut|up|KEY=VALUE,…], lab addr HOST. The lab
// exits with the script's status and kills the processes that it leaves running.
package testnet
