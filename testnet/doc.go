// Package testnet emulates networks: for tests in virtual time, and for real
// processes on this machine. One model of a link serves both.
//
// # The model
//
// A [Link] is one direction: a tail-drop queue of bytes, a transmitter with a
// rate, and a wire with delay, jitter, loss (random or in bursts,
// Gilbert-Elliott), duplication and reordering; [Params] says exactly what each
// means. It is pure: the caller passes the time and collects what has arrived.
// The same seed and calls give the same result, and changing one parameter does
// not change the luck of the others. Parameters may change while packets are
// under way: a lower rate holds for what waits, a cut loses what is on the wire.
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
//	rate=10mbit,stall=5ms/25ms          stands still 5 ms of every 25 ms
//	rate=7mbit,fade=20s/10s/12kbit      of every 20 s the last 10 carry 12 kbit/s
//	trace=FILE,from=10s                 a recording ([Trace]); FILE.up and FILE.down are there and back
//	wifi=good|busy|edge,air=NAME        a station; links with one NAME share the air
//	wifi=fit-campus|fit-campus-tcp|fit-home-2g4|fit-home-5g  stations fitted to published delays
//
// Each says at its type what it does not model; for wifi see wifi.go.
//
// Rates are decimal bits per second, sizes binary bytes. A packet counts with
// its UDP and IP headers: payload + 28 bytes, 48 for IPv6.
//
// A [Mesh] joins hosts by such links. Parameters hold for what a host sends, to
// whomever; a direction "robot>pc" that is given its own has its own queue from
// then on. A host that is cut neither sends nor receives. Two sockets of one
// host share its link: that is how two senders share a bottleneck.
//
// # In memory
//
// A [Network] offers net.PacketConns over a mesh, for code under
// testing/synctest: its times are exact there, and a minute costs milliseconds.
//
//	synctest.Test(t, func(t *testing.T) {
//		n := testnet.NewNetwork(seed)
//		robot := n.Host("robot", testnet.Params{Delay: 10 * time.Millisecond, Rate: 1e6})
//		pc := n.Host("pc", testnet.Params{Delay: 10 * time.Millisecond})
//		a, err := robot.Listen(8076)   // a *testnet.Conn; addresses are *net.UDPAddr
//		b, err := pc.Listen(0)
//		err = n.Change("robot", "loss=5%,burst=3")  // or "robot>pc", or "" for all
//		n.Tap(func(e testnet.Event) { … })          // every packet sent, arrived, discarded
//	})
//
// Close the sockets, and whatever runs on them, before the bubble ends.
// Simultaneous arrivals come in the order of sending. What several goroutines
// send at the same instant comes in the order in which they ran: a test that
// needs it exact to the packet has them send at different times.
//
// A [Hub] is a hub in memory, as package bridge reaches one through NATS: byte streams, and the
// newest frame of each channel, over lines with a delay and a rate. It can be cut, stalled, and
// made to lie.
//
//	hub := testnet.NewHub(1 << 20)
//	robot := hub.Host("robot", testnet.Params{Delay: 10 * time.Millisecond, Rate: 1e6}, testnet.Params{})
//	hub.Deceive(testnet.Deceit{Frames: testnet.Replays})
//
// Package testnet/hubtest has the contract that this hub and the real one keep.
//
// # Real hosts
//
// Package testnet/hosts makes hosts of namespaces: each has its own network,
// processes (its own PID 1), host name, System V IPC, /dev/shm, /run, and its
// own changes to /etc and /var/lib; the rest of the files it shares with this
// machine. Their interfaces (eth0, a TAP device) end in an Ethernet switch in
// the process that started them, which applies the model. Multicast reaches
// everybody, so mDNS works; names resolve by /etc/hosts. The hosts know one
// another's hardware addresses from the start; ARP, neighbour discovery and group
// membership skip the model unless the link is cut. All ends with that process, however it ends.
// It needs root and /dev/net/tun; it does not need sch_netem.
//
//	func TestMain(m *testing.M) {
//		hosts.Main() // a host's first process is this program again
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
// Real time is as good as the machine: packets are never early, and on an idle
// machine some 50 to 200 µs late.
//
// # At the command line
//
// Program testnet/lab is the same for scripts and people:
//
//	go run ./testnet/lab run --hosts robot,pc --link delay=10ms,rate=1mbit,queue=64KiB,loss=1% -- ./script.sh
//
// The script runs on this machine, with the command lab on its PATH: lab exec
// HOST CMD…, lab link [HOST|'A>B'] [cut|up|KEY=VALUE,…], lab addr HOST. Its exit
// status is the lab's, and what it leaves running is killed.
package testnet
