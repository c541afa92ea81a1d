package hub

import (
	"fmt"
	"strings"
	"testing"
)

func TestFrontForwardsPermittedLines(t *testing.T) {
	s := newSpeaker("pc")
	for _, c := range []struct {
		line string
		size int
	}{
		{"PING", 0}, {"PONG", 0}, {"SUB ach.*.here  1", 0}, {"SUB ach.*.to.pc.> 2", 0},
		{"SUB _INBOX.pc.ABC.*  3", 0}, {"SUB _INBOX.pc.ABC.pull.z  999999999", 0}, {"UNSUB 1 ", 0}, {"UNSUB 7", 0}, {"SUB ach.*.here  1", 0}, {"UNSUB 1", 0}, {"SUB ach.*.here  4", 0},
		{"PUB ach.pc.here 18", 20}, {"PUB ach.pc.f.imu _INBOX.pc.x.1 8388608", 8388610}, {"PUB ach.pc.make _INBOX.pc.x.1 0", 2},
	} {
		if m, err := s.allow([]byte(c.line + "\r\n")); m.size != c.size || err != nil {
			t.Errorf("allow(%q) = %+v, %v, want size %d", c.line, m, err, c.size)
		}
	}
}

func TestFrontRefusesForbiddenLines(t *testing.T) {
	long := strings.Repeat("x", 512)
	for _, c := range []struct {
		line string
		want error
	}{
		{"PUB ach.pc.f.imu ach.robot.f.imu 1\r\n", errReply}, {"PUB ach.pc.f.imu $JS.API.STREAM.DELETE.robot,imu 1\r\n", errReply}, {"PUB ach.pc.f.imu _INBOX.robot.x 1\r\n", errReply},
		{"PUB ach.pc.f.imu _INBOX.pc 1\r\n", errReply}, {"PUB ach.pc.f.imu _INBOX.pcx.y 1\r\n", errReply}, {"PUB ach.pc.f.imu _INBOX.pc." + long + " 1\r\n", errReply},
		{"HPUB ach.pc.f.imu 12 12\r\n", errHeaders}, {"HPUB ach.pc.f.imu _INBOX.pc.x 12 12\r\n", errHeaders},
		{"PUB $JS.API.CONSUMER.MSG.NEXT.robot,imu.pc _INBOX.pc.x 0\r\n", errPull}, {"PUB $JS.API.CONSUMER.MSG.NEXT.robot,imu.pc _INBOX.pc.x 100\r\n", errPull},
		{"PUB ach.pc.here 16385\r\n", errLong}, {"PUB ach.robot.f.imu 16385\r\n", errLong}, {"PUB $JS.API.CONSUMER.MSG.NEXT.robot,imu.pc _INBOX.pc.x 16385\r\n", errLong},
		{"PUB ach.pc.make _INBOX.pc.x 1025\r\n", errLong}, {"PUB ach.pc.read _INBOX.pc.x 1025\r\n", errLong},
		{"SUB _INBOX.pc.> 1\r\n", errSubscription}, {"SUB _INBOX.robot.x 1\r\n", errSubscription}, {"SUB ach.*.to.robot.> 1\r\n", errSubscription}, {"SUB ach.pc.here 1\r\n", errSubscription}, {"SUB > 1\r\n", errSubscription},
		{"SUB  1\r\n", errSubscription}, {"SUB ach.*.here 8\r\n", errRepeated}, {"SUB _INBOX.pc.x 9\r\n", errRepeated},
		// These lines look harmless, but the server would parse them in another way, or refuse them.
		{"PUB ach.pc.f.imu\tach.robot.f.imu 1\r\n", errUnknownLine}, {"PUB  ach.pc.f.imu ach.robot.f.imu 1\r\n", errUnknownLine}, {"PUB ach.pc.f.imu  1\r\n", errReply},
		{"PUB ach.pc.f.imu 1 \r\n", errUnknownLine}, {"PUB ach.pc.f.imu 1\r\r\n", errUnknownLine}, {"PUB ach.pc.f.imu 1\n", errUnknownLine}, {"PUB ach.pc.f.imu 1\r2\r\n", errUnknownLine},
		{"PUB ach.pc.f.imu -1\r\n", errUnknownLine}, {"PUB ach.pc.f.imu +1\r\n", errUnknownLine}, {"PUB ach.pc.f.imu 0x1\r\n", errUnknownLine}, {"PUB ach.pc.f.imu 9999999999\r\n", errUnknownLine},
		{"SUB\r\n", errUnknownLine}, {"SUB ach.*.here\r\n", errUnknownLine}, {"SUB ach.*.here group 1\r\n", errUnknownLine}, {"SUB ach.*.here   1\r\n", errUnknownLine}, {"SUB ach.*.here 1 \r\n", errUnknownLine},
		{"SUB ach.*.here x\r\n", errUnknownLine}, {"SUB ach.*.here\t1\r\n", errUnknownLine}, {"sub _INBOX.pc.x 1\r\n", errUnknownLine},
		{"UNSUB\r\n", errUnknownLine}, {"UNSUB 9 1\r\n", errUnknownLine}, {"UNSUB 9 0\r\n", errUnknownLine}, {"UNSUB  9\r\n", errUnknownLine}, {"UNSUB 9  \r\n", errUnknownLine}, {"UNSUB x\r\n", errUnknownLine},
		{"PUB ach.pc.f.imu\r\n", errUnknownLine}, {"PUB 1\r\n", errUnknownLine}, {"PUB\r\n", errUnknownLine}, {"pub ach.pc.f.imu ach.robot.f.imu 1\r\n", errUnknownLine}, {"hpub a 12 12\r\n", errUnknownLine},
		{" PUB ach.pc.f.imu ach.robot.f.imu 1\r\n", errUnknownLine}, {"PUB ach.pc.f.imu ach.robot.f.imu _INBOX.pc.x 1\r\n", errUnknownLine},
		{"CONNECT {\"nkey\":\"KEY\"}\r\n", errUnknownLine}, {"INFO {}\r\n", errUnknownLine}, {"MSG a 1 1\r\n", errUnknownLine}, {"+OK\r\n", errUnknownLine}, {"\r\n", errUnknownLine}, {"\n", errUnknownLine},
	} {
		s := newSpeaker("pc")
		if _, err := s.allow([]byte("SUB ach.*.here 9\r\n")); err != nil {
			t.Fatal(err)
		}
		if m, err := s.allow([]byte(c.line)); err != c.want || m.size != 0 {
			t.Errorf("allow(%.60q) = %+v, %v, want %v", c.line, m, err, c.want)
		}
	}
}

func TestFrontLimitsSubscriptionsOfHost(t *testing.T) {
	s := newSpeaker("pc")
	for id := range maxSubscriptions + 1 {
		_, err := s.allow(fmt.Appendf(nil, "SUB _INBOX.pc.x%d %d\r\n", id, id))
		if want := id == maxSubscriptions; (err == errSubscriptions) != want || err != nil && !want {
			t.Fatalf("after %d subscriptions: got %v", id, err)
		}
	}
}

// The front forwards only messages without a reply subject, or with one in the host's inbox.
func FuzzFrontReplySubjectsAreInInbox(f *testing.F) {
	f.Add([]byte("PUB ach.pc.f.imu _INBOX.pc.x 1\r\n"))
	f.Add([]byte("PUB a b c 1\r\n"))
	f.Fuzz(func(t *testing.T, line []byte) {
		s := newSpeaker("pc")
		m, err := s.allow(line)
		if err != nil || m.size == 0 {
			return
		}
		words := strings.FieldsFunc(string(line), func(r rune) bool { return r == ' ' || r == '\t' || r == '\r' || r == '\n' }) // as the server does
		if len(words) == 4 && !strings.HasPrefix(words[2], "_INBOX.pc.") || len(words) < 3 || len(words) > 4 || words[0] != "PUB" || words[len(words)-1] == "" {
			t.Errorf("%q was forwarded, want it refused", line)
		}
	})
}
