package achd

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"achbridge/localach"
	"achbridge/testnet/await"
)

// asked returns the pull described by the first line of a conversation, as in "# udp newest period=20ms".
func asked(line string) Remote {
	p := Remote{Channel: "imu"}
	for _, word := range strings.Fields(strings.TrimPrefix(line, "#")) {
		switch period, is := strings.CutPrefix(word, "period="); {
		case is:
			p.Period, _ = time.ParseDuration(period)
		case word == "udp":
			p.UDP = true
		case word == "newest":
			p.Newest = true
		}
	}
	return p
}

// Each file of testdata/client is a conversation. "#" marks the request of the client, ">" its messages, "<" the
// host's replies, and "=" the result.
func TestClientConversations(t *testing.T) {
	files, _ := filepath.Glob("testdata/client/*.txt")
	if len(files) < 12 {
		t.Fatalf("%d conversations", len(files))
	}
	port := regexp.MustCompile(`remote-port: [0-9]+`)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		head, answer := "", ""
		for line := range strings.Lines(string(text)) {
			switch said, is := strings.CutPrefix(line, "< "); {
			case is:
				answer += strings.NewReplacer(`\r`, "\r", `\0`, "\x00", `\1`, "\x01", `\4`, "\x04", `\8`, "\b", `\e`, "\x1b", `\x`, strings.Repeat("x", 1100)).Replace(said)
			case strings.HasPrefix(line, "#"):
				head = line
			}
		}
		said, result := converse(t, asked(head), strings.Contains(head, "push"), answer)
		got := head
		for line := range strings.Lines(port.ReplaceAllString(said, "remote-port: PORT")) {
			got += "> " + line
		}
		for line := range strings.Lines(string(text)) {
			if strings.HasPrefix(line, "< ") {
				got += line
			}
		}
		got += "= " + result + "\n"
		if *update {
			if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		} else if got != string(text) {
			t.Errorf("%s: got\n%s\nwant\n%s", file, got, text)
		}
	}
}

// converse connects a client to a host that sends answer and closes the connection.
func converse(t *testing.T, p Remote, push bool, answer string) (said, result string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	received := make(chan string, 1)
	go func() {
		conn, err := ln.Accept()
		if err != nil {
			received <- err.Error()
			return
		}
		defer conn.Close()
		text, in := "", bufio.NewReader(conn)
		for line := ""; line != ".\n" && err == nil; text += line {
			line, err = in.ReadString('\n')
		}
		_, _ = io.WriteString(conn, answer)
		received <- text
	}()
	p.Host, p.Port, _ = net.SplitHostPort(ln.Addr().String())
	if push {
		return converseOfPush(t, p, received)
	}
	err = p.Pull(context.Background(), func(g localach.Geometry, from netip.Addr) (func([]byte), error) {
		result = fmt.Sprintf("%d x %d from %v, ", g.FrameCount, g.FrameSize, from)
		return func(frame []byte) { result += fmt.Sprintf("%q, ", frame) }, nil
	})
	return <-received, result + err.Error()
}

// converseOfPush ends converse for a client that sends one frame, if the host permits it.
func converseOfPush(t *testing.T, p Remote, received chan string) (said, result string) {
	t.Helper()
	ch, err := localach.Dir(t.TempDir()).Create("imu", localach.CreateConfig{})
	if err != nil {
		t.Fatal(err)
	}
	w := ch.Writer()
	t.Cleanup(func() { w.Close(); ch.Close() })
	err = p.Push(context.Background(), Outgoing{
		Channel: ch, May: func() error { return nil }, Begun: func() { result = "begun, " },
		NewData: func(*localach.Channel, func(uint64)) func() { return func() {} },
	})
	return <-received, result + err.Error()
}

// The client ignores datagrams that are not from the host's port. Any byte of the host on the TCP connection ends the
// pull.
func TestClientIgnoresDatagramsOfOtherHosts(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	host, port, _ := net.SplitHostPort(ln.Addr().String())
	frames, done := make(chan string, 10), make(chan error, 1)
	go func() {
		p := Remote{Host: host, Port: port, Channel: "imu", UDP: true}
		done <- p.Pull(context.Background(), func(localach.Geometry, netip.Addr) (func([]byte), error) {
			return func(frame []byte) { frames <- string(frame) }, nil
		})
	}()
	conn, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	var to net.UDPAddr
	if _, err := fmt.Sscanf(line, "remote-port: %d\n", &to.Port); err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	to.IP = net.IPv4(127, 0, 0, 1)
	var from [2]*net.UDPConn
	for i := range from {
		if from[i], err = net.DialUDP("udp4", nil, &to); err != nil {
			t.Fatal(err)
		}
		defer from[i].Close()
	}
	fmt.Fprintf(conn, "remote-port: %d\nframe-count: 4\nframe-size: 100\nstatus: 0\n.\n", from[0].LocalAddr().(*net.UDPAddr).Port)
	_, _ = from[1].Write([]byte("forged"))
	for _, text := range []string{"", strings.Repeat("x", 401), "true"} {
		_, _ = from[0].Write([]byte(text))
	}
	if got := await.Receive(t, "a frame", frames); got != "true" {
		t.Errorf("got %q, want the host's frame", got)
	}
	_, _ = io.WriteString(conn, "x")
	if err := <-done; err == nil || !strings.Contains(err.Error(), "sent data where achd sends none") {
		t.Errorf("a byte beside the frames: got %v", err)
	}
}

// Only received bytes of a frame use memory.
func TestDeclaredSizeDoesNotAllocate(t *testing.T) {
	head := binary.LittleEndian.AppendUint64([]byte(magic), 48<<20)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	err := framesOf(bufio.NewReaderSize(strings.NewReader(string(head)+"half"), readBuffer), maxMemory, func([]byte) { t.Error("a frame") })
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; err == nil || took > 1<<20 {
		t.Errorf("got %v, and %d KiB for half a frame", err, took>>10)
	}
}

// FuzzAnswer parses arbitrary replies of a host. A grant must have a valid channel.
func FuzzAnswer(f *testing.F) {
	f.Add("remote-port: 5\nframe-count: 16\nframe-size: 512\nstatus: 0 # ACH_OK\n.\n")
	f.Add("status: 9 # ACH_ENOENT\nmessage: Couldn't open: x # y\n\n.\n")
	f.Add("frame-count: 99999999999999999999\nFRAME-SIZE = -1\r\n \n")
	f.Fuzz(func(t *testing.T, text string) {
		var a answer
		for _, line := range strings.Split(text, "\n") {
			done, err := a.add([]byte(line))
			if err != nil || done {
				break
			}
		}
		g, err := a.complete(true)
		if err == nil && (g.FrameCount < 1 || g.FrameSize < 1 || a.port < 1 || a.port > 65535) {
			t.Errorf("%q: granted %+v, port %d", text, g, a.port)
		}
		if len(a.message) > 4*maxMessage || strings.ContainsAny(a.message, "\x1b\n\r") {
			t.Errorf("%q: message %q", text, a.message)
		}
	})
}

// FuzzFrames parses arbitrary bytes after a host's reply. Every returned frame must be whole and of the channel's size.
func FuzzFrames(f *testing.F) {
	f.Add([]byte("achpipe\x00\x04\x00\x00\x00\x00\x00\x00\x00abcd"))
	f.Add([]byte("achpipe\x00\x04\x00\x00\x00\x01\x00\x00\x00abcd"))
	f.Add([]byte("achpipe\x00\x00\x00\x00\x00\x00\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, text []byte) {
		err := framesOf(bufio.NewReaderSize(strings.NewReader(string(text)), readBuffer), 100, func(frame []byte) {
			if len(frame) == 0 || len(frame) > 100 {
				t.Errorf("%q: a frame of %d bytes", text, len(frame))
			}
		})
		if err == nil {
			t.Errorf("%q: no end", text)
		}
	})
}
