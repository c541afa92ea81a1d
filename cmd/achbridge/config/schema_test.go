package config

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"testing"
)

const (
	exampleFile = "../achbridge.example.yaml"
	schemaFile  = "../achbridge.schema.json"
)

func TestExampleConfigurationIsValid(t *testing.T) {
	text, err := os.ReadFile(exampleFile)
	if err != nil {
		t.Fatal(err)
	}
	c, err := loaded(t, string(text), nil)
	if err != nil {
		t.Fatal(err)
	}
	if list := c.Warnings(); len(list) > 0 {
		t.Errorf("got rules without effect %q, want none", list)
	}
	for _, want := range []struct{ host, channel, kind, result string }{
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
		for _, v := range c.Judgements(want.host, want.channel, nil) {
			found = found || v.Kind == want.kind && v.Result == want.result
		}
		if !found {
			t.Errorf("%s/%s: want %s: %s; got %+v", want.host, want.channel, want.kind, want.result, c.Judgements(want.host, want.channel, nil))
		}
	}
}

var updateSchema = flag.Bool("updateschema", false, "write the schema for editors anew")

func TestEditorSchemaMatchesConfigurationKeys(t *testing.T) {
	text, err := json.MarshalIndent(fileSchema(), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	got := append(text, '\n')
	if *updateSchema {
		if err := os.WriteFile(schemaFile, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if want, err := os.ReadFile(schemaFile); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s, %v: got\n%s\nwant\n%s\n(go test -updateschema rewrites it)", schemaFile, err, got, want)
	}
}
