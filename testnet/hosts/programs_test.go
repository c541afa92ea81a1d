package hosts

import (
	"context"
	"fmt"
	"net"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/grandcat/zeroconf"
)

func TestMain(m *testing.M) {
	Main()
	if name := os.Getenv("LAB_TEST_PROGRAM"); name != "" {
		if err := programs[name](os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// programs run on the hosts of the tests: this test binary under another name.
var programs = map[string]func(args []string) error{
	"register": register, "browse": browse, "echo": echo, "ping": ping, "listen": listenMulticast, "say": sayMulticast, "flood": flood, "sink": sink,
	"carrier": carrier,
}

// program prepares one of programs.
func program(l *Lab, host, name string, args ...string) *Cmd {
	c := l.Command(host, os.Args[0], args...)
	c.Env = append(os.Environ(), "LAB_TEST_PROGRAM="+name)
	c.Stderr = os.Stderr
	return c
}

// echo sends every datagram back.
func echo([]string) error {
	conn, err := net.ListenPacket("udp", ":7")
	if err != nil {
		return err
	}
	fmt.Println("ready")
	buf := make([]byte, 2000)
	for {
		n, from, err := conn.ReadFrom(buf)
		if err != nil {
			return err
		}
		conn.WriteTo(buf[:n], from)
	}
}

// ping HOST[:PORT] COUNT WAIT prints the round trip times, in ns, of those that came
// back.
func ping(args []string) error {
	count, _ := strconv.Atoi(args[1])
	wait, err := time.ParseDuration(args[2])
	if err != nil {
		return err
	}
	target := args[0]
	if _, _, err := net.SplitHostPort(target); err != nil {
		target = net.JoinHostPort(target, "7")
	}
	conn, err := net.Dial("udp", target)
	if err != nil {
		return err
	}
	buf := make([]byte, 10)
	for i := range count {
		start := time.Now()
		conn.Write([]byte{byte(i)})
		conn.SetReadDeadline(start.Add(wait))
		for n, err := conn.Read(buf); err == nil; n, err = conn.Read(buf) {
			if n == 1 && buf[0] == byte(i) { // not a late one
				fmt.Println(time.Since(start).Nanoseconds())
				break
			}
		}
	}
	return nil
}

var group = &net.UDPAddr{IP: net.IPv4(224, 0, 0, 251), Port: 5353}

func listenMulticast([]string) error {
	conn, err := net.ListenMulticastUDP("udp4", nil, group)
	if err != nil {
		return err
	}
	fmt.Println("ready")
	buf := make([]byte, 100)
	n, from, err := conn.ReadFrom(buf)
	fmt.Printf("%s from %v\n", buf[:n], from.(*net.UDPAddr).IP)
	return err
}

func sayMulticast(args []string) error {
	conn, err := net.DialUDP("udp4", nil, group)
	if err != nil {
		return err
	}
	_, err = conn.Write([]byte(args[0]))
	return err
}

// flood HOST COUNT SIZE sends datagrams as fast as it can.
func flood(args []string) error {
	count, _ := strconv.Atoi(args[1])
	size, _ := strconv.Atoi(args[2])
	conn, err := net.Dial("udp", net.JoinHostPort(args[0], "9"))
	if err != nil {
		return err
	}
	for range count {
		conn.Write(make([]byte, size))
	}
	return nil
}

// sink prints how many datagrams came and the ns from the first to the last,
// once half a second has passed without one.
func sink([]string) error {
	conn, err := net.ListenPacket("udp", ":9")
	if err != nil {
		return err
	}
	fmt.Println("ready")
	var first, last time.Time
	count := 0
	for {
		if _, _, err := conn.ReadFrom(make([]byte, 2000)); err != nil {
			fmt.Println(count, last.Sub(first).Nanoseconds())
			return nil
		}
		if last = time.Now(); count == 0 {
			first = last
		}
		count++
		conn.SetReadDeadline(last.Add(time.Second / 2))
	}
}

// register NAME offers a service by mDNS until it is killed.
func register(args []string) error {
	if _, err := zeroconf.Register(args[0], "_test._udp", "local.", 8076, nil, nil); err != nil {
		return err
	}
	fmt.Println("ready")
	select {}
}

// browse prints the first service that mDNS finds.
func browse([]string) error {
	resolver, err := zeroconf.NewResolver()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	found := make(chan *zeroconf.ServiceEntry, 10)
	if err := resolver.Browse(ctx, "_test._udp", "local.", found); err != nil {
		return err
	}
	for entry := range found {
		fmt.Println(entry.Instance, entry.AddrIPv4, entry.Port)
		return nil
	}
	return ctx.Err()
}
