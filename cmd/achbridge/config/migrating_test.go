package config

import (
	"os"
	"regexp"
	"testing"
)

func TestMigrationGuideConfigurationsAreValid(t *testing.T) {
	text, err := os.ReadFile("../../../docs/migrating.md")
	if err != nil {
		t.Fatal(err)
	}
	pieces := regexp.MustCompile("`((?:mirror|push|accept|adopt|peers): [^`]+)`").FindAllStringSubmatch(string(text), -1)
	block := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(text), -1)
	if len(pieces) < 8 || len(block) != 1 {
		t.Fatalf("docs/migrating.md: got %d inline configurations and %d blocks", len(pieces), len(block))
	}
	for _, p := range append(pieces, block...) {
		if _, err := loaded(t, regexp.MustCompile("robot:PORT").ReplaceAllString(p[1], "robot:8076"), nil); err != nil {
			t.Errorf("%s: %v", p[1], err)
		}
	}
}
