package testnet_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A host with achd has avahi announce its channels.
func TestHostsWithAchdAreListedWhenAsked(t *testing.T) {
	longRun(t)
	s := newSite(t, "robot", "pc")
	s.startAvahi("robot")
	s.background("robot", "avahi-publish", "--service", "imu", "_ach._tcp", "8076")
	s.background("robot", "avahi-publish", "--service", "an imu", "_ach._tcp", "8076") // no channel has that name
	s.background("robot", "avahi-publish", "--service", "joints", "_ach._tcp", "9000")
	address, err := s.lab.Command("robot", "sh", "-c", "ip -4 -o addr show eth0 | awk '{print $4}' | cut -d/ -f1").Output()
	if err != nil {
		t.Fatal(err)
	}
	at := strings.TrimSpace(string(address))
	want := []string{"achd://" + at + "/imu by robot.local", "achd://" + at + ":9000/joints by robot.local"}
	await(t, 15*time.Second, func() error {
		out, err := s.lab.Command("pc", filepath.Join(s.bin, "achbridge"), "ls", "--achd", "--json").Output()
		if err != nil {
			return fmt.Errorf("ls: %w", err)
		}
		var list []struct {
			Host, Channel string
			AnnouncedBy   string `json:"announced_by"`
		}
		if err := json.Unmarshal(out, &list); err != nil {
			return err
		}
		var got []string
		for _, c := range list {
			got = append(got, c.Host+"/"+c.Channel+" by "+c.AnnouncedBy)
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			return fmt.Errorf("got %q, want %q", got, want)
		}
		return nil
	})
	for pattern, want := range map[string]bool{"robot.local/imu": true, "*/imu": true, "achd://" + at + "/imu": true, "other/imu": false, "*/goal": false} {
		out, _ := s.lab.Command("pc", filepath.Join(s.bin, "achbridge"), "ls", "--achd", pattern).CombinedOutput()
		if got := strings.Contains(string(out), "achd://"+at+"/imu "); got != want {
			t.Errorf("%s: got %s, want imu: %v", pattern, out, want)
		}
	}
}
