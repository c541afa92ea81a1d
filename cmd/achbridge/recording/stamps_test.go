package recording

import (
	"encoding/binary"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"achbridge/bridge/layout"
	"achbridge/bridge/stamps"
	"achbridge/bridge/status"
)

// snsFrame returns a frame with the header of sns: stamped at a time of CLOCK_MONOTONIC, and valid for a second.
func snsFrame(at time.Duration) []byte {
	b := make([]byte, 56)
	binary.LittleEndian.PutUint64(b, uint64(at/time.Second))
	binary.LittleEndian.PutUint64(b[8:], uint64(time.Second))
	binary.LittleEndian.PutUint32(b[16:], uint32(at%time.Second))
	return b
}

// stampedAt returns the time in a frame of snsFrame.
func stampedAt(b []byte) time.Duration {
	return time.Duration(binary.LittleEndian.Uint64(b))*time.Second + time.Duration(binary.LittleEndian.Uint32(b[16:]))
}

// The recorder's host had been up for a day. A command that was put 3 s before the recording began is played as one of
// that age: by its duration of 1 s it has expired. The first frames of a recording may have a topic without the rule.
func TestPlayShiftsStampsToPresent(t *testing.T) {
	const uptime = 24 * time.Hour
	stamped := func(topic *Topic) {
		topic.Stamps = Stamps{"sns", uptime - 1_700_000_000*time.Second}
	}
	path := fileOf(t,
		line{channel: "goal", read: 0, captured: -3 * time.Second, data: snsFrame(uptime - 3*time.Second)},
		line{channel: "goal", read: 500 * milli, captured: 500 * milli, topic: stamped, data: snsFrame(uptime + 490*milli)},
		line{channel: "goal", read: 600 * milli, captured: 600 * milli, topic: stamped, data: []byte("no header")},
		line{channel: "goal", read: 700 * milli, captured: 700 * milli, topic: stamped, data: snsFrame(uptime + 700*milli)},
	)
	synctest.Test(t, func(t *testing.T) {
		dir := testDir(t)
		begun := time.Now()
		begin := status.Monotonic(begun)
		played, err := Play{Dir: dir, File: path, Rate: 1}.Run(t.Context())
		if err != nil || played.Frames != 3 || played.Unparsed != 1 {
			t.Fatalf("Run = %+v, %v, want 3 frames, and 1 that does not parse", played, err)
		}
		ch, err := dir.Open("goal")
		if err != nil {
			t.Fatal(err)
		}
		defer ch.Close()
		buf := make([]byte, 64)
		r := ch.Reader()
		for _, want := range []time.Duration{-3 * time.Second, 490 * milli, 700 * milli} {
			n, err := r.TryNextOldest(buf)
			if err != nil {
				t.Fatal(err)
			}
			if got := stampedAt(buf[:n]) - begin; (got - want).Abs() > 50*milli {
				t.Errorf("a stamp is %v after playing began, want %v", got, want)
			}
		}
	})
}

// The rule for the stamps changes during the recording: each frame is shifted by the rule that it was recorded with.
func TestPlayShiftsEachFrameByItsRule(t *testing.T) {
	const uptime = 24 * time.Hour
	ruled := func(r stamps.Rule) func(*Topic) {
		return func(topic *Topic) { topic.Stamps = Stamps{r, uptime - 1_700_000_000*time.Second} }
	}
	path := fileOf(t,
		line{channel: "goal", read: 0, captured: 0, topic: ruled("sns"), data: snsFrame(uptime)},
		line{channel: "goal", read: 100 * milli, captured: 100 * milli, topic: ruled(""), data: snsFrame(uptime + 100*milli)},
		line{channel: "goal", read: 200 * milli, captured: 200 * milli, topic: ruled("somatic"), data: []byte{8, 1}},
	)
	synctest.Test(t, func(t *testing.T) {
		dir := testDir(t)
		begin := status.Monotonic(time.Now())
		played, err := Play{Dir: dir, File: path, Rate: 1}.Run(t.Context())
		if err != nil || played.Frames != 2 || played.Unparsed != 1 {
			t.Fatalf("Run = %+v, %v, want 2 frames, and that without a rule left out", played, err)
		}
		ch, err := dir.Open("goal")
		if err != nil {
			t.Fatal(err)
		}
		defer ch.Close()
		buf := make([]byte, 64)
		n, err := ch.Reader().TryNextOldest(buf)
		if err != nil || n < 56 || (stampedAt(buf[:n])-begin).Abs() > 50*milli {
			t.Errorf("got a frame of %d bytes, %v, want the stamp of the first one shifted to the present", n, err)
		}
	})
}

// A frame that does not match the layout has no stamps that could be shifted, and its topic has no layout.
func TestPlayOmitsFrameThatLayoutDoesNotMatch(t *testing.T) {
	const uptime = 24 * time.Hour
	l := &layout.Layout{Name: "goal", Size: 16, Fields: []layout.Field{{Name: "stamp", Type: layout.Int64}, {Name: "valid", Type: layout.Int64, Offset: 8}}}
	kind, err := NewType(l, status.TypeFromFile)
	if err != nil {
		t.Fatal(err)
	}
	stamped := func(topic *Topic) {
		topic.Stamps = Stamps{"time:stamp;duration:valid", uptime - 1_700_000_000*time.Second}
		topic.Type = kind
	}
	mismatched := func(topic *Topic) {
		stamped(topic)
		topic.Type, topic.Mismatch = nil, true
	}
	data := make([]byte, 16)
	binary.LittleEndian.PutUint64(data, uint64(uptime))
	for name, isFirst := range map[string]bool{"first": true, "later": false} {
		t.Run(name, func(t *testing.T) {
			lines := []line{{channel: "goal", topic: mismatched, data: []byte("short")}, {channel: "goal", topic: stamped, data: data}}
			if !isFirst {
				slices.Reverse(lines)
			}
			path := fileOf(t, append(lines, line{channel: "goal", topic: stamped, data: data})...)
			dir := testDir(t)
			played, err := Play{Dir: dir, File: path, Rate: 1}.Run(t.Context())
			if err != nil || played.Frames != 2 || played.Unparsed != 1 {
				t.Fatalf("Run = %+v, %v, want 2 frames, and 1 that does not parse", played, err)
			}
			ch, err := dir.Open("goal")
			if err != nil {
				t.Fatal(err)
			}
			defer ch.Close()
			buf := make([]byte, 64)
			if _, err := ch.Reader().Last(buf); err != nil {
				t.Fatal(err)
			}
			if age := status.Monotonic(time.Now()) - time.Duration(binary.LittleEndian.Uint64(buf)); age < 0 || age > time.Minute {
				t.Errorf("the stamp is %v old, want it shifted to the present", age)
			}
		})
	}
}

func TestPlayRefusesStampsItCannotShift(t *testing.T) {
	for _, rule := range []string{"nonsense", "time:stamp"} {
		path := fileOf(t, line{channel: "goal", topic: func(topic *Topic) { topic.Stamps.Rule = stamps.Rule(rule) }})
		dir := testDir(t)
		if played, err := (Play{Dir: dir, File: path, Rate: 1}).Run(t.Context()); err == nil || played.Frames != 0 {
			t.Errorf("%s: Run = %+v, %v, want an error and no frame", rule, played, err)
		}
	}
}
