package rule

import (
	"strings"
	"testing"
)

// The values of released presets never change.
func TestPresetValues(t *testing.T) {
	for name, want := range map[string]string{
		"state":   "",
		"command": "budget 50ms, priority 7, class command",
		"log":     "priority 2, mode every",
		"video":   "budget 200ms, priority 2",
	} {
		m, err := ParseMirror("robot/imu,preset="+name, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := Differences(QoS{}, m.QoS); got != want {
			t.Errorf("preset %s: got %q, want %q", name, got, want)
		}
		if m.QoS.Deadline != 0 || m.QoS.OnStale != (OnStale{}) {
			t.Errorf("preset %s sets deadline or on_stale", name)
		}
	}
	if len(PresetNames()) != 4 {
		t.Errorf("got presets %v, want four", PresetNames())
	}
}

func TestWrittenOptionsPrecedePreset(t *testing.T) {
	for _, text := range []string{"robot/imu,preset=command,priority=3", "robot/imu,priority=3,preset=command"} {
		m, err := ParseMirror(text, nil)
		if err != nil || m.QoS.Priority.Level() != 3 || m.QoS.Class != Command {
			t.Errorf("%s: got %+v, %v, want priority 3 and class command", text, m.QoS, err)
		}
	}
}

func TestUnknownPresetIsRefused(t *testing.T) {
	if _, err := ParseMirror("robot/imu,preset=comand", nil); err == nil || !strings.Contains(err.Error(), `preset "comand": want state, command, log or video`) {
		t.Errorf("got %v, want the names of the presets", err)
	}
	if _, err := ParseMirror("robot/imu,preset=log,max_rate=5", nil); err == nil || !strings.Contains(err.Error(), "mode every") {
		t.Errorf("got %v, want that mode every and max_rate contradict each other", err)
	}
}

func TestOptionsThatRepeatPreset(t *testing.T) {
	for setting, want := range map[Setting]bool{
		{"priority", "7"}: true, {"budget", "0.05s"}: true, {"class", "command"}: true,
		{"priority", "6"}: false, {"mode", "newest"}: false, {"as", "imu"}: false, {"priority", "x"}: false,
	} {
		if got := IsRepeated("command", setting.Key, setting.Value); got != want {
			t.Errorf("%+v: got %v, want %v", setting, got, want)
		}
	}
	if IsRepeated("", "priority", "4") {
		t.Error("got that a rule without a preset repeats it")
	}
}
