package hub

import (
	"strings"
	"testing"
)

func TestSubjectsRoundTrip(t *testing.T) {
	for _, c := range []struct{ host, channel, subject, stream string }{
		{"robot", "imu", "ach.robot.f.imu", "robot,imu"},
		{"krang.lan", "left/arm", "ach.krang=2Elan.f.left=2Farm", "krang=2Elan,left=2Farm"},
		{"a,b", "*", "ach.a=2Cb.f.=2A", "a=2Cb,=2A"},
		{"=", ">", "ach.=3D.f.=3E", "=3D,=3E"},
		{"é", "a b", "ach.=C3=A9.f.a=20b", "=C3=A9,a=20b"},
	} {
		if got := FrameSubject(c.host, c.channel); got != c.subject {
			t.Errorf("subject of %s/%s: got %s, want %s", c.host, c.channel, got, c.subject)
		}
		if got := StreamName(c.host, c.channel); got != c.stream {
			t.Errorf("stream of %s/%s: got %s, want %s", c.host, c.channel, got, c.stream)
		}
		if got, err := subjectOf(c.stream); got != c.subject || err != nil {
			t.Errorf("subjectOf(%q) = %q, %v, want %q", c.stream, got, err, c.subject)
		}
		if got, err := HostOf(c.subject); got != c.host || err != nil {
			t.Errorf("host of %s: got %q, %v, want %q", c.subject, got, err, c.host)
		}
	}
}

func TestLongNamesStayWithinServerLimit(t *testing.T) {
	host, channel := strings.Repeat("é", 31), strings.Repeat("ä", 31)
	stream := StreamName(host, channel)
	if len(stream) > maxStreamName {
		t.Errorf("got a stream's name of %d bytes, want at most %d", len(stream), maxStreamName)
	}
	if stream == StreamName(host, channel+"x") {
		t.Errorf("got the same stream for two channels: %s", stream)
	}
	if word := strings.TrimPrefix(FrameSubject(host, channel), "ach."+token(host)+".f."); stream != token(host)+","+word {
		t.Errorf("got stream %s and channel %s in the subject, want the same word", stream, word)
	}
}

func TestConsumerOfRejectsInvalidStreams(t *testing.T) {
	for _, stream := range []string{"", ",", "robot", "robot,", ",imu", ">", "robot,>", "*,*", "robot,*", "robot,a.b", "robot,imu,x", "robot,imu x", "robot,imu\r\n", "robot,\u00e9", strings.Repeat("x", 300) + ",imu"} {
		if got, err := ConsumerOf("pc", stream); err == nil {
			t.Errorf("ConsumerOf(pc, %q) has filter %q, want an error", stream, got.FilterSubject)
		}
	}
}

func TestControlSubjectsRoundTrip(t *testing.T) {
	from, to, session, err := parseControl(controlOf("a.b", "c", "s-1"))
	if from != "a.b" || to != "c" || session != "s-1" || err != nil {
		t.Errorf("got %q, %q, %q, %v, want a.b, c, s-1", from, to, session, err)
	}
}

func TestInvalidSubjectsAreRefused(t *testing.T) {
	for _, subject := range []string{"", "ach", "ach.robot", "ach..here", "xyz.robot.here", "ach.=2.here", "ach.=2e.here", "ach.=41.here", "ach.a b.here", "ach.*.here"} {
		if host, err := HostOf(subject); err == nil {
			t.Errorf("host of %q: got %q, want an error", subject, host)
		}
	}
	for _, subject := range []string{"ach.a.to.b", "ach.a.to.b.c.d", "ach.a.f.b.c", "x.a.to.b.c", "ach.a.to..c", "ach.a.to.b.=zz"} {
		if from, to, session, err := parseControl(subject); err == nil {
			t.Errorf("%q: got %q, %q, %q, want an error", subject, from, to, session)
		}
	}
}

func TestPermissionsCoverOneHost(t *testing.T) {
	p := PermissionsOf("a.*")
	for _, subject := range append(p.Publish, p.Subscribe...) {
		if strings.Contains(subject, "a.*") {
			t.Errorf("got %s, want the name as one word", subject)
		}
	}
	if got, want := p.Publish[0], "ach.a=2E=2A.>"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestIsSubscriptionOf(t *testing.T) {
	for subject, want := range map[string]bool{
		"ach.*.here": true, "ach.*.to.krang=2Elan.>": true, "_INBOX.krang=2Elan.A.*": true, "_INBOX.krang=2Elan.A.pull.1": true,
		"ach.*.to.robot.>": false, "ach.robot.to.krang=2Elan.>": false, "ach.robot.here": false, "_INBOX.robot.A": false, "_INBOX.krang=2Elan": false, "_INBOX.krang=2Elan.>": false,
		"_INBOX.krang=2Elan.*.A": false, "_INBOX.krang=2Elan.*.*": false, "_INBOX.krang=2Elan.A*": false, "_INBOX.krang=2Elan..A": false, "_INBOX.krang=2Elan.": false,
		"_INBOX.krang=2Elan.A.B.C": true, "_INBOX.krang=2Elan.A.B.C.D": false, "_INBOX.krang=2Elan." + strings.Repeat("A", maxReply): false, ">": false, "": false,
	} {
		if got := IsSubscriptionOf("krang.lan", subject); got != want {
			t.Errorf("IsSubscriptionOf(%.60q) = %v, want %v", subject, got, want)
		}
	}
}

func FuzzTokenRoundTrip(f *testing.F) {
	f.Add("krang.lan")
	f.Add("=2E")
	f.Fuzz(func(t *testing.T, text string) {
		if name, err := nameOf(text); err == nil && token(name) != text {
			t.Errorf("%q is read as %q, which is written %q", text, name, token(name))
		}
		if got, err := nameOf(token(text)); text != "" && (got != text || err != nil) {
			t.Errorf("%q: got %q, %v", text, got, err)
		}
	})
}
