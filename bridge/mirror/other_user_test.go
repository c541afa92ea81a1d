package mirror

import (
	"os"
	"strings"
	"testing"

	"achbridge/bridge/rule"
	"achbridge/localach"
)

const nobody = 65534

// fileOfNobody creates a channel with a tag, as any user can, and gives it to another user.
func fileOfNobody(t *testing.T, dir localach.Dir, name string, tag localach.Tag) *localach.Channel {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("no file can be given to another user: run as root")
	}
	ch, err := dir.Create(name, localach.CreateConfig{Geometry: localach.Geometry{FrameCount: 16, FrameSize: 64}, Mode: 0o666, Tag: tag})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ch.Close() })
	if err := os.Chown(dir.Path(name), nobody, nobody); err != nil {
		t.Fatal(err)
	}
	return ch
}

// A tag does not make the file ours: another user writes there, and could read the frames.
func TestTaggedFileOfOtherUserRequiresAdoption(t *testing.T) {
	dir := testDir(t)
	ch := fileOfNobody(t, dir, "m", localach.Tag{Channel: channelHash("robot", "m"), Epoch: 1, Seq: 100})
	if _, err := bareAdopted(dir, "m", false); err == nil || !strings.Contains(err.Error(), "of user 65534") || !strings.Contains(err.Error(), "--adopt m") {
		t.Errorf("got %v, want it refused as another user's, with the cure", err)
	}
	m := adoptedMirror(t, dir, "m")
	if m.OwnsFile() {
		t.Error("the file of another user counts as ours once it is adopted")
	}
	m.putNext(came(1, frame(1, 64)))
	if got := ch.LastSeq(); got != 1 {
		t.Errorf("the adopted file is at %d, want 1, whatever its tag claims to hold", got)
	}
}

func TestMetadataChannelOfOtherUserIsRefused(t *testing.T) {
	dir := testDir(t)
	m := testMirror(t, dir, "m")
	fileOfNobody(t, dir, "m.meta", localach.Tag{Channel: metaMark("m")})
	if err := m.accompany(rule.QoS{Meta: true}); err == nil || !strings.Contains(err.Error(), "not the metadata channel of m") {
		t.Errorf("got %v, want it refused", err)
	}
	if err := m.accompany(rule.QoS{}); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(dir.Path("m.meta")); err != nil {
		t.Errorf("the file of another user was removed: %v", err)
	}
}
