package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What stands below a misspelt key may be a secret, if it is a text. A word such as false, or
// a digit, is none, and stands all over the report.
func TestMisspeltKeysDoNotRuinTheReport(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(path, []byte("discvery: false\nfoo: 1\nbar: ''\nbaz: {deep: [secretsecret]}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := &report{private: map[string]bool{}}
	r.section("status", `{"relay": false, "links": 1, "text": "secretsecret"}`)
	r.configuration(path)
	got := string(r.scrubbed())
	if !strings.Contains(got, `{"relay": false, "links": 1, "text": "(address)"}`) || strings.Contains(got, "secretsecret") {
		t.Errorf("got %s", got)
	}
}
