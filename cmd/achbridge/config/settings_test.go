package config

import (
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"achbridge/bridge/rule"
)

// loaded reads a configuration from the text of a file, the environment and a
// command line.
func loaded(t *testing.T, text string, env map[string]string, args ...string) (*Config, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s := Defaults()
	flags := pflag.NewFlagSet("run", pflag.ContinueOnError)
	s.Flags(flags)
	if err := flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	a := Places{Env: func(name string) string { return env[name] }}
	return a.Source(path, flags).Load()
}

func TestSettingsPrecedence(t *testing.T) {
	text := "name: fromfile\nlisten: ':1'\nstate: fromfile\nmirror: ['krang/*', 'atlas/*']\naccept: [goal]\ndiscovery: auto\nlog: debug\n"
	env := map[string]string{"ACHBRIDGE_NAME": "fromenv", "ACHBRIDGE_LISTEN": ":2"}
	c, err := loaded(t, text, env, "--name", "fromflag", "--mirror", "robot/imu", "--no-discovery")
	if err != nil {
		t.Fatal(err)
	}
	if c.Name != "fromflag" || c.Listen != ":2" || c.State != "fromfile" || c.Discovery || c.Log.Level != slog.LevelDebug {
		t.Errorf("got %+v, want name and discovery of the flags, listen of the environment, the rest of the file", c.Settings)
	}
	if len(c.MirrorRules) != 1 || c.MirrorRules[0].Host != "robot" || len(c.AcceptGrants) != 1 || c.ExportGrants != nil {
		t.Errorf("got mirror %v, accept %v, export %v, want the flag's, the file's, none", c.MirrorRules, c.AcceptGrants, c.ExportGrants)
	}
	for key, want := range map[string]string{"name": "--name", "listen": "ACHBRIDGE_LISTEN", "state": c.Path + ":3", "export": "default"} {
		if got := c.from[key].String(); got != want {
			t.Errorf("%s is from %s, want %s", key, got, want)
		}
	}
}

// types has no flag: commands that decode frames use it, but run does not.
func TestEveryConfigurationKeyHasFlag(t *testing.T) {
	s := Defaults()
	flags := pflag.NewFlagSet("run", pflag.ContinueOnError)
	s.Flags(flags)
	for _, key := range configKeys {
		flag := flags.Lookup(key.flagName())
		if key.kind == aMap && flag == nil {
			continue
		}
		if key.section() == "achd" && key.kind == aList && flag == nil {
			continue // which hosts to trust without proof is only in the file, where it is visible
		}
		if key.section() == "record" && flag == nil {
			continue // run has many flags, and a recorder is a decision for the robot, not for one start
		}
		if key.name == "channels" && flag == nil {
			continue // an entry is long for a flag, and scripts can use achbridge channel create
		}
		if flag == nil {
			t.Errorf("key %s has no flag", key.name)
			continue
		}
		_, rules := flag.Value.(*ruleFlag)
		_, list := flag.Value.(pflag.SliceValue)
		if rules != (key.kind == ruleSet) || list != (key.kind != oneValue) {
			t.Errorf("key %s: kind %d does not match its flag's type %T", key.name, key.kind, flag.Value)
		}
		for _, word := range key.words {
			if err := flag.Value.Set(word); err != nil {
				t.Errorf("%s: got %v, want %s accepted", key.name, err, word)
			}
		}
	}
}

func TestEnvironmentVariableNamesAreValidInShell(t *testing.T) {
	for _, name := range Variables() {
		if !regexp.MustCompile(`^ACHBRIDGE_[A-Z][A-Z_]*$`).MatchString(name) {
			t.Errorf("no shell can set %s", name)
		}
	}
}

func TestTextRuleEqualsMappingRule(t *testing.T) {
	for _, c := range []struct{ text, mapping string }{
		{"mirror: ['krang/imu,as=imu,budget=20ms,priority=7,file_mode=0660']", "mirror: [{match: krang/imu, as: imu, budget: 20ms, priority: 7, file_mode: 0660}]"},
		{"mirror: ['krang/log,mode=every']", "mirror: [{match: [krang/log], mode: every}]"},
		{"push: ['goal krang/planner.goal']", "push: [{match: goal, hosts: krang, as: planner.goal}]"},
		{"export: ['camera*,hosts=pc viz-*,max_rate=5']", "export: [{match: [camera*], hosts: [pc, 'viz-*'], max_rate: 5}]"},
		{"accept: ['goal,class=command']", "accept:\n- match: goal\n  class: command\n"},
	} {
		a, err := loaded(t, c.text, nil)
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		b, err := loaded(t, c.mapping, nil)
		if err != nil {
			t.Errorf("%s: %v", c.mapping, err)
			continue
		}
		if now, restart := a.Changes(b); len(now)+len(restart) > 0 {
			t.Errorf("%s\ndiffers from %s in %v", c.text, c.mapping, now)
		}
	}
}

func TestEmptyListOverridesDefault(t *testing.T) {
	c, err := loaded(t, "export: []\nmirror: []\n", nil)
	if err != nil || c.ExportGrants == nil || len(c.ExportGrants) != 0 {
		t.Errorf("got export %#v, %v, want an empty list, which exports nothing", c.ExportGrants, err)
	}
	if c, err := loaded(t, "# nothing\n", nil); err != nil || c.ExportGrants != nil {
		t.Errorf("got export %#v, %v, want none, which exports all", c.ExportGrants, err)
	}
}

func TestConfigurationRulesReachNode(t *testing.T) {
	c, err := loaded(t, `
export:
  - {deny: [secret*, tmp*]}
  - {match: camera, hosts: [pc], max_rate: 5, priority: 2}
mirror:
  - {match: [krang/imu, krang/joints], budget: 20ms}
  - {deny: '*/debug*'}
push:
  - {match: plan*, hosts: [krang, atlas], as: 'pc.{channel}'}
  - {deny: plan.secret}
`, nil)
	if err != nil {
		t.Fatal(err)
	}
	if g, err := c.ExportGrants.For("camera", "pc"); err != nil || g.QoS.MaxRate != 5000 || g.From != "export[1]" {
		t.Errorf("got %+v, %v, want the rule for camera", g, err)
	}
	if _, err := c.ExportGrants.For("tmp1", "pc"); err == nil {
		t.Error("tmp1 is exported, want it denied")
	}
	if m, ok := c.MirrorRules.For("krang", "joints"); !ok || m.QoS.Budget.String() != "20ms" {
		t.Errorf("got %+v, %v, want joints with the budget of the rule", m, ok)
	}
	if _, ok := c.MirrorRules.For("krang", "debug1"); ok {
		t.Error("debug1 is mirrored, want it denied")
	}
	want := []rule.Push{
		{Channel: "plan*", Host: "krang", As: "pc.{channel}", From: "push[0]"},
		{Channel: "plan*", Host: "atlas", As: "pc.{channel}", From: "push[0]"},
		{Channel: "plan.secret", Host: "*", Deny: true, From: "push[1]"},
	}
	if !slices.Equal(c.PushRules, want) {
		t.Errorf("got %+v, want %+v", c.PushRules, want)
	}
}

func TestConfigurationErrorsNameTheirSource(t *testing.T) {
	_, err := loaded(t, "nme: krang\nmirror:\n  - {match: krang/imu, budget: fast}\nlog: loud\n", map[string]string{"ACHBRIDGE_LISTEN": "8076"}, "--accept", "[")
	if err == nil {
		t.Fatal("got no error, want one")
	}
	for _, want := range []string{
		"config.yaml:1:1: nme: unknown key; did you mean name?",
		`config.yaml:3:32: mirror[0].budget: "fast": want a time`,
		`config.yaml:4:6: log: "loud": want debug`,
		`ACHBRIDGE_LISTEN: "8076": want :PORT`,
		"--accept: accept[0].match: channel \"[\": not a pattern",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("got\n%v\nwant it to contain %s", err, want)
		}
	}
}

func TestHostNameIsUsableInAchNames(t *testing.T) {
	for system, want := range map[string]string{
		"krang": "krang", "krang.lab.example": "krang", "my robot": "my-robot", "": "", "übung": "--bung",
	} {
		if got := HostName(system); got != want {
			t.Errorf("hostName(%q) = %q, want %q", system, got, want)
		}
	}
}
