package testnet_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"achbridge/testnet/await"
	"achbridge/testnet/need"
)

// Hosts with achd announce their channels through avahi.
func TestLsFindsHostsWithAchd(t *testing.T) {
	need.Long(t)
	s := newSite(t, "robot", "pc")
	s.startAvahi("robot")
	s.publishService("robot", "imu", "_ach._tcp", "8076")
	s.publishService("robot", "an imu", "_ach._tcp", "8076") // not a valid channel name
	s.publishService("robot", "joints", "_ach._tcp", "9000")
	at := s.addr("robot")
	want := []string{"achd://" + at + "/imu by robot.local", "achd://" + at + ":9000/joints by robot.local"}
	await.NoError(t, func() error {
		out, stderr, code := s.achbridge("pc", "ls", "--achd", "--json")
		if code != codeOK {
			return fmt.Errorf("ls: exit code %d: %s", code, stderr)
		}
		var list []struct {
			Host, Channel string
			AnnouncedBy   string `json:"announced_by"`
		}
		if err := json.Unmarshal([]byte(out), &list); err != nil {
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
		await.NoError(t, func() error { // multicast may lose a query or an answer
			out, _, _ := s.achbridge("pc", "ls", "--achd", pattern)
			if got := strings.Contains(out, "achd://"+at+"/imu "); got != want {
				return fmt.Errorf("%s: got %s, want imu: %v", pattern, out, want)
			}
			return nil
		})
	}
}
