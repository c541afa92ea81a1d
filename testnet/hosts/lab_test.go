package hosts

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"achbridge/testnet/await"
	"achbridge/testnet/need"
)

// in calls In and fails the test on error.
func in[S any](t *testing.T, l *Lab, host string, open func() (S, error)) S {
	t.Helper()
	s, err := In(l, host, open)
	if err != nil {
		t.Fatalf("%s: %v", host, err)
	}
	return s
}

// listen opens a UDP socket on a host.
func listen(t *testing.T, l *Lab, host string, port int) *net.UDPConn {
	t.Helper()
	conn := in(t, l, host, func() (*net.UDPConn, error) { return net.ListenUDP("udp", &net.UDPAddr{Port: port}) })
	t.Cleanup(func() { conn.Close() })
	return conn
}

// dial connects a UDP socket of a host to ADDRESS:PORT.
func dial(t *testing.T, l *Lab, host, to string) net.Conn {
	t.Helper()
	conn := in(t, l, host, func() (net.Conn, error) { return net.Dial("udp", to) })
	t.Cleanup(func() { conn.Close() })
	return conn
}

// echo sends each datagram that arrives at port 7 of a host back.
func echo(t *testing.T, l *Lab, host string) {
	t.Helper()
	conn := listen(t, l, host, 7)
	go func() {
		buf := make([]byte, 2000)
		for {
			n, from, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			conn.WriteTo(buf[:n], from)
		}
	}()
}

// send sends a number. It ignores errors, which may be refusals of earlier datagrams.
func send(conn net.Conn, number int) { conn.Write(binary.BigEndian.AppendUint32(nil, uint32(number))) }

// nextNumber returns the next number that arrives.
func nextNumber(t *testing.T, conn net.Conn) int {
	t.Helper()
	conn.SetReadDeadline(await.Deadline())
	buf := make([]byte, 4)
	for {
		_, err := conn.Read(buf)
		if err == nil {
			return int(binary.BigEndian.Uint32(buf))
		}
		if !errors.Is(err, syscall.ECONNREFUSED) {
			t.Fatalf("no answer: %v", err)
		}
	}
}

func output(t *testing.T, c *Cmd) string {
	t.Helper()
	out, err := c.Output()
	if err != nil {
		t.Fatalf("%v: %v", c.Args, err)
	}
	return strings.TrimSpace(string(out))
}

const (
	robot4, robot6 = "10.80.76.1", "[fd00:8076::1]"
)

// Packets are never early. How late they are depends on the machine. On an idle one the shortest of
// many round trips is about twice the delay.
func TestLinkAppliesDelay(t *testing.T) {
	l := StartTest(t, Config{Hosts: []string{"robot", "pc"}, Link: "delay=10ms"})
	echo(t, l, "robot")
	check := func(to string, want time.Duration) {
		t.Helper()
		conn, best := dial(t, l, "pc", to+":7"), time.Hour
		for i := range need.LongOr(20, 5) {
			begin := time.Now()
			send(conn, i)
			nextNumber(t, conn)
			best = min(best, time.Since(begin))
		}
		if best < want || need.IsLong() && best > want+5*time.Millisecond {
			t.Errorf("%s: best round trip = %v, want %v", to, best, want)
		}
	}
	check(robot4, 20*time.Millisecond)
	check(robot6, 20*time.Millisecond)
	if err := l.Change("robot>pc", "delay=40ms"); err != nil {
		t.Fatal(err)
	}
	check(robot4, 50*time.Millisecond)
}

// Datagrams sent while a host is cut never arrive. Datagrams sent later would arrive after them.
func TestCutHostIsSilentUntilUp(t *testing.T) {
	l := StartTest(t, Config{Hosts: []string{"robot", "pc"}})
	echo(t, l, "robot")
	conn := dial(t, l, "pc", robot4+":7")
	for i, c := range []struct {
		target, text string
		silent       bool
	}{{"robot", "cut", true}, {"robot", "up", false}, {"pc>robot", "cut", true}, {"pc>robot", "up", false}, {"", "loss=100%", true}, {"", "loss=0%", false}} {
		before := sent(l)
		if err := l.Change(c.target, c.text); err != nil {
			t.Fatal(err)
		}
		send(conn, i)
		if c.silent {
			await.True(t, "the datagram has not reached the switch", func() bool { return sent(l) > before })
			continue
		}
		if got := nextNumber(t, conn); got != i {
			t.Errorf("%q %s: answer to number %d came, want the one to %d alone", c.target, c.text, got, i)
		}
	}
	if err := l.Change("krang", "cut"); err == nil || !strings.Contains(err.Error(), "hosts are robot, pc") {
		t.Errorf("Change(krang) = %v, want the hosts there are", err)
	}
}

// sent returns how many packets the hosts have sent over the links.
func sent(l *Lab) (packets uint64) {
	for _, s := range l.Settings() {
		packets += s.Counts.Sent
	}
	return packets
}

// An answer from another port than the query was sent to is not received.
func TestRebindChangesOutsidePort(t *testing.T) {
	l := StartTest(t, Config{Hosts: []string{"robot", "pc"}})
	echo(t, l, "robot")
	inside := dial(t, l, "pc", robot4+":7")
	number := 0
	for _, outside := range []uint16{40007, 40008} {
		if err := l.Rebind("robot", 7, outside); err != nil {
			t.Fatal(err)
		}
		send(inside, -1) // its answer arrives before the others
		for _, addr := range []string{robot4, robot6} {
			conn := dial(t, l, "pc", fmt.Sprint(addr, ":", outside))
			number++
			send(conn, number)
			if got := nextNumber(t, conn); got != number {
				t.Errorf("%s:%d: answer = %d, want %d", addr, outside, got, number)
			}
		}
	}
	former := dial(t, l, "pc", robot4+":40007")
	send(former, -1)
	if err := l.Rebind("robot", 7, 0); err != nil {
		t.Fatal(err)
	}
	send(inside, 0)
	if got := nextNumber(t, inside); got != 0 {
		t.Errorf("port 7: answer = %d, want none but that to 0", got)
	}
	former.SetReadDeadline(time.Now().Add(time.Millisecond))
	if n, _ := former.Read(make([]byte, 4)); n > 0 {
		t.Error("former port: an answer came, want none")
	}
	if err := l.Rebind("krang", 7, 8); err == nil || !strings.Contains(err.Error(), "hosts are robot, pc") {
		t.Errorf("Rebind(krang) = %v, want the hosts there are", err)
	}
}

// A datagram of 1000 B takes 8 ms. Ten wait besides the one in transmission, the others overflow.
func TestLinkAppliesRateAndQueue(t *testing.T) {
	const each, queue, total = 8 * time.Millisecond, 10, 100
	l := StartTest(t, Config{Hosts: []string{"robot", "pc"}, Link: "rate=1mbit,queue=10000"})
	sink, conn := listen(t, l, "robot", 9), dial(t, l, "pc", robot4+":9")
	begin := time.Now()
	for range total {
		conn.Write(make([]byte, 972))
	}
	await.NoError(t, func() error {
		if n := l.Settings()[1].Counts.Sent; n != total {
			return fmt.Errorf("%d datagrams were sent, want %d", n, total)
		}
		return nil
	})
	// On a busy machine the link may have sent some meanwhile.
	most := uint64(queue + 1 + time.Since(begin)/each + 1)
	through := total - l.Settings()[1].Counts.Overflow
	if through < queue+1 || through > most {
		t.Errorf("%d datagrams got through, want %d to %d", through, queue+1, most)
	}
	sink.SetReadDeadline(await.Deadline())
	for i := range through {
		if _, err := sink.Read(make([]byte, 2000)); err != nil {
			t.Fatalf("datagram %d of %d: %v", i+1, through, err)
		}
	}
	took, least := time.Since(begin), time.Duration(through)*each
	if took < least || need.IsLong() && took > least+least/20 {
		t.Errorf("%d datagrams took %v, want %v", through, took, least)
	}
}

func TestMulticastReachesEveryHost(t *testing.T) {
	l := StartTest(t, Config{Hosts: []string{"robot", "pc", "station"}})
	group := &net.UDPAddr{IP: net.IPv4(224, 0, 0, 251), Port: 5353}
	var listeners []*net.UDPConn
	for _, host := range []string{"pc", "station"} {
		conn := in(t, l, host, func() (*net.UDPConn, error) { return net.ListenMulticastUDP("udp4", nil, group) })
		defer conn.Close()
		listeners = append(listeners, conn)
	}
	send(dial(t, l, "robot", group.String()), 7)
	for _, conn := range listeners {
		conn.SetReadDeadline(await.Deadline())
		n, from, err := conn.ReadFromUDP(make([]byte, 100))
		if err != nil || n != 4 || from.IP.String() != robot4 {
			t.Errorf("got %d bytes from %v, %v, want 4 from %s", n, from, err, robot4)
		}
	}
}

func TestHostsHaveSeparateFilesAndNames(t *testing.T) {
	before, _ := filepath.Glob("/etc/achbridge*")
	l := StartTest(t, Config{Hosts: []string{"robot", "pc"}})
	const script = `set -e
		for dir in /dev/shm /run /etc/achbridge /var/lib/achbridge; do
			test ! -e $dir/lab-test || { echo "$dir is shared"; exit 1; }
			mkdir -p $dir; echo $(hostname) >$dir/lab-test
		done
		hostname; cat /etc/hostname; ls /proc | grep -c '^[0-9]'; cat /proc/1/comm | wc -l`
	for _, host := range l.Hosts() {
		got := strings.Fields(output(t, l.Command(host, "sh", "-c", script)))
		// The processes are PID 1, the shell, ls and grep.
		if len(got) != 4 || got[0] != host || got[1] != host || got[2] > "4" {
			t.Errorf("%s: got %q, want its name twice and its own processes only", host, got)
		}
	}
	for _, path := range []string{"/dev/shm/lab-test", "/run/lab-test", "/etc/achbridge/lab-test", "/var/lib/achbridge/lab-test"} {
		if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: got %v outside, want none", path, err)
		}
	}
	if after, _ := filepath.Glob("/etc/achbridge*"); !slices.Equal(before, after) {
		t.Errorf("got %q in /etc, want %q as before", after, before)
	}
}

func TestCommandReportsStatusAndCanBeKilled(t *testing.T) {
	l := StartTest(t, Config{Hosts: []string{"robot"}})
	var exit *exec.ExitError
	if err := l.Command("robot", "sh", "-c", "exit 42").Run(); !errors.As(err, &exit) || exit.ExitCode() != 42 {
		t.Errorf("got %v, want status 42", err)
	}
	c := l.Command("robot", "sleep", "1000")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	c.Process.Kill()
	if err := c.Wait(); !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Errorf("got %v, want killed", err)
	}
	if err := l.Command("krang", "true").Run(); err == nil || !strings.Contains(err.Error(), `no host "krang"; hosts are robot`) {
		t.Errorf("got %v, want the hosts there are", err)
	}
	if dir := output(t, l.Command("robot", "pwd")); !strings.HasSuffix(dir, "testnet/hosts") {
		t.Errorf("got directory %s, want this one", dir)
	}
}

func TestCloseEndsRunningPrograms(t *testing.T) {
	l := StartTest(t, Config{Hosts: []string{"robot", "pc"}})
	c := l.Command("pc", "sh", "-c", "sleep 1000 & exec sleep 1000")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	pid := l.nodes[0].cmd.Process.Pid
	l.Close()
	if c.ProcessState == nil {
		t.Error("got a running process after Close")
	}
	if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("got %v for the host's first process, want none", err)
	}
}

func TestStartReportsBadConfiguration(t *testing.T) {
	_, err := Start(Config{Hosts: []string{"ro bot", "pc", "pc", "cut"}, Link: "rate=fast"})
	for _, want := range []string{`"ro bot" is not a host name`, `"pc" is named twice`, `"cut" has a meaning`, `rate: "fast"`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want it to say %q", err, want)
		}
	}
}
