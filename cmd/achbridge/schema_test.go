package main

import (
	"encoding/json"
	"os"
	"testing"
)

const (
	exampleFile = "achbridge.example.yaml"
	schemaFile  = "achbridge.schema.json"
)

func TestExampleIsAGoodConfiguration(t *testing.T) {
	text, err := os.ReadFile(exampleFile)
	if err != nil {
		t.Fatal(err)
	}
	c, err := loaded(t, string(text), nil)
	if err != nil {
		t.Fatal(err)
	}
	if list := c.unreached(); len(list) > 0 {
		t.Errorf("rules that do nothing: %q", list)
	}
	for _, want := range []struct{ host, channel, verb, result string }{
		{"krang", "debug1", "export", "nobody may read it: export[0] denies it"},
		{"krang", "camera1", "export", "planner and viz-* may read it"},
		{"krang", "imu", "export", "every host with the key may read it"},
		{"krang", "goal", "accept", "planner may push into it"},
		{"krang", "plan1", "push", "pushed to planner as krang.plan1"},
		{"atlas", "imu", "mirror", "mirrored here as imu"},
		{"atlas", "joints", "mirror", "mirrored here as atlas.joints"},
		{"atlas", "debug", "mirror", "not mirrored: mirror[3] denies it"},
	} {
		found := false
		for _, v := range c.verdicts(want.host, want.channel, nil) {
			found = found || v.Verb == want.verb && v.Result == want.result
		}
		if !found {
			t.Errorf("%s/%s: want %s: %s; got %+v", want.host, want.channel, want.verb, want.result, c.verdicts(want.host, want.channel, nil))
		}
	}
}

func TestSchemaForEditorsIsThatOfTheKeys(t *testing.T) {
	text, err := json.MarshalIndent(configSchema(), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, schemaFile, append(text, '\n'))
}
