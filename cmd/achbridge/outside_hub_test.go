//go:build !nohub

package main_test

import (
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"achbridge/testnet/await"
)

// TestGoldenHub pins the JSON of the hub's commands and its metrics.
func TestGoldenHub(t *testing.T) {
	t.Parallel()
	dir := memory(t)
	l := &schema{t: t, types: map[string]map[string]bool{}, texts: map[string]map[string]bool{}}
	succeeds(t, dir, "hub", "init", "hub.example.com", "--dir", "hub")
	succeeds(t, dir, "hub", "add", "krang", "--dir", "hub")
	l.at(dir, "hub check", "--dir", "hub", "--listen", "127.0.0.1:0")
	l.at(dir, "hub check", "--dir", "none", "--listen", "127.0.0.1:0")
	stays(t, dir, "hub", "--dir", "hub", "--listen", "127.0.0.1:0", "--http", ":0")
	var report struct {
		Running bool
		HTTP    string
	}
	await.True(t, "the hub answers", func() bool {
		return json.Unmarshal([]byte(l.at(dir, "hub ls", "--dir", "hub")), &report) == nil && report.Running
	})
	pinnedTypes(t, "hub.golden", l.types)
	found := map[string]bool{}
	answer, err := http.Get("http://" + report.HTTP + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	page, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	metricLines(string(page), found)
	pinned(t, "hub_metrics.golden", slices.Sorted(maps.Keys(found)))
	files := filesOf(t, map[string]string{"hub": filepath.Join(dir, "hub")})
	for i, line := range files {
		files[i] = publicKey.ReplaceAllString(line, "KEY")
	}
	pinned(t, "hub_files.golden", files)
}

var publicKey = regexp.MustCompile(`U[A-Z2-7]{55}`)
