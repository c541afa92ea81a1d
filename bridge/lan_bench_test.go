package bridge

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"achbridge/testnet/hosts"
)

// lan is two hosts on an emulated cable, the robot's node and one that mirrors it.
type lan struct {
	*hosts.Lab
	program string // C program that writes and reads channels
	pc      *child
	port    string // of the robot's echo
	writers int    // that there were
}

const (
	lanChannel = "/dev/shm/n0/achshm-c0"
	lanMirror  = "/dev/shm/n0/achshm-robot.c0"
	lanRobot   = "10.80.76.1"
	lanFrames  = "1000" // of a measurement, as many pings
)

func newLAN(b *testing.B) *lan {
	b.Helper()
	l := &lan{program: plainPeer(b), Lab: hosts.StartTest(b, hosts.Config{Hosts: []string{"robot", "pc"}})}
	_, port := playOn(b, l.Lab, "robot", "nodes", "robot", "1", "/dev/shm/n")
	l.pc, _ = playOn(b, l.Lab, "pc", "nodes", "pc", "1", "/dev/shm/n", net.JoinHostPort(lanRobot, port))
	_, l.port = playOn(b, l.Lab, "robot", "echo")
	if out, err := l.Command("robot", l.program, lanChannel, "create", "16", "64").CombinedOutput(); err != nil {
		b.Fatalf("%v: %s", err, out)
	}
	l.pc.ask("mirror robot/*")
	return l
}

// ping returns half the round trips of a bare ping, in ns.
func (l *lan) ping(b *testing.B) map[string]float64 {
	b.Helper()
	c, text := playOn(b, l.Lab, "pc", "ping", net.JoinHostPort(lanRobot, l.port), lanFrames)
	c.end()
	return figures([]byte(text))
}

// mirror returns the times from a put until a reader of the mirror has the frame, in ns.
func (l *lan) mirror(b *testing.B) map[string]float64 {
	b.Helper()
	l.writers++
	before := l.pc.spent().Frames
	writer := l.Command("robot", l.program, lanChannel, "put", "0", "64", "1000000", strconv.Itoa(l.writers))
	if err := writer.Start(); err != nil {
		b.Fatal(err)
	}
	defer func() {
		writer.Process.Signal(syscall.SIGTERM)
		writer.Wait()
	}()
	for end := time.Now().Add(10 * time.Second); l.pc.spent().Frames == before; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			b.Fatal("no frame has come to the mirror")
		}
	}
	out, err := l.Command("pc", l.program, lanMirror, "get", lanFrames, "wl", "5000").Output()
	if err != nil {
		b.Fatalf("%v: %s", err, out)
	}
	return figures(out)
}

// BenchmarkLAN is the time from a put on one host until a plain C reader that waits
// for the mirror on another has the frame, of 64 bytes at 1 kHz over an emulated cable
// without impairment, as a ratio to half the round trip of a bare UDP ping of as many
// bytes at the same pace. The aim is 1.5 at the median of all.
func BenchmarkLAN(b *testing.B) {
	l := newLAN(b)
	for b.Loop() {
		var bare, mirrored [2][]float64
		measures := []func(){
			func() { f := l.ping(b); bare[0], bare[1] = append(bare[0], f["p50_ns"]), append(bare[1], f["p99_ns"]) },
			func() {
				f := l.mirror(b)
				mirrored[0], mirrored[1] = append(mirrored[0], f["p50_ns"]), append(mirrored[1], f["p99_ns"])
			},
		}
		for range 4 {
			measures[0]()
			measures[1]()
			slices.Reverse(measures)
		}
		for i, name := range []string{"p50", "p99"} {
			b.ReportMetric(median(bare[i])/1e3, name+"-µs-ping")
			b.ReportMetric(median(mirrored[i])/1e3, name+"-µs-mirror")
			b.ReportMetric(median(ratios(mirrored[i], bare[i])), name+"-mirror/ping")
		}
		b.ReportMetric(0, "ns/op")
	}
}

// echoRole sends every datagram back.
func echoRole([]string) error {
	conn, err := net.ListenUDP("udp4", nil)
	if err != nil {
		return err
	}
	go func() {
		buf := make([]byte, 100)
		for {
			n, from, err := conn.ReadFromUDPAddrPort(buf)
			if err == nil {
				_, err = conn.WriteToUDPAddrPort(buf[:n], from)
			}
			if errors.Is(err, net.ErrClosed) {
				return
			}
		}
	}()
	defer conn.Close()
	return serve(strconv.Itoa(conn.LocalAddr().(*net.UDPAddr).Port), func(*spent) {}, nil)
}

// pingRole is ADDR COUNT: so many pings of 64 bytes, at 1 kHz.
func pingRole(args []string) error {
	count, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	conn, err := net.Dial("udp4", args[0])
	if err != nil {
		return err
	}
	defer conn.Close()
	var times []time.Duration
	buf := make([]byte, 64)
	beat := newBeat(time.Millisecond)
	for range count {
		beat.wait()
		begin := time.Now()
		if _, err := conn.Write(buf); err != nil {
			return err
		}
		conn.SetReadDeadline(begin.Add(time.Second))
		if _, err := conn.Read(buf); err != nil {
			return err
		}
		times = append(times, time.Since(begin)/2)
	}
	slices.Sort(times)
	return serve(fmt.Sprintf("p50_ns=%d p99_ns=%d", times[count/2], times[count*99/100]), func(*spent) {}, nil)
}
