package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"achbridge/testnet/await"
	"achbridge/testnet/need"
)

const (
	dashboard = "../../packaging/grafana/achbridge.json"
	alerts    = "../../packaging/prometheus/achbridge.rules.yaml"
	// hubMetrics is the golden file of TestGoldenHub, which lists the metrics of a hub.
	hubMetrics = "testdata/outside/hub_metrics.golden"
)

// TestAlertRulesFireOnBadSeries makes promtool check the alert rules and evaluate them on
// good and bad series.
func TestAlertRulesFireOnBadSeries(t *testing.T) {
	promtool := need.Program(t, "promtool", "prometheus")
	for _, args := range [][]string{
		{"check", "rules", alerts},
		{"test", "rules", strings.Replace(alerts, ".yaml", ".test.yaml", 1)},
	} {
		if out, err := exec.Command(promtool, args...).CombinedOutput(); err != nil {
			t.Errorf("promtool %q: %v\n%s", args, err, out)
		}
	}
	tried := textOf(t, strings.Replace(alerts, ".yaml", ".test.yaml", 1))
	for _, alert := range regexp.MustCompile(`- alert: (\w+)`).FindAllStringSubmatch(textOf(t, alerts), -1) {
		if !strings.Contains(tried, "alertname: "+alert[1]+"\n        exp_alerts:") {
			t.Errorf("no test expects the alert %s", alert[1])
		}
	}
}

// TestDashboardAndAlertsUseExportedMetrics compares the metrics in the dashboard and the alerts
// with those of two linked daemons, one of which mirrors a channel of the other.
func TestDashboardAndAlertsUseExportedMetrics(t *testing.T) {
	key := newKeyFile(t)
	robot := daemonFor(t, key, "krang")
	feedChannels(t, robot.shm, 10*time.Millisecond, "imu")
	pc := daemonFor(t, key, "planner", "--peer", net.JoinHostPort("127.0.0.1", strconv.Itoa(robot.udp)), "--mirror", "krang/*")
	ofHubs := textOf(t, hubMetrics)
	wanted := map[string]string{}
	for _, file := range []string{dashboard, alerts} {
		for _, name := range regexp.MustCompile(`achbridge_\w+`).FindAllString(textOf(t, file), -1) {
			if !strings.HasPrefix(name, "achbridge_hub_") {
				wanted[name] = file
			} else if !strings.Contains(ofHubs, "series "+name+" ") {
				t.Errorf("%s: no hub exports %s", file, name)
			}
		}
	}
	// the rate is only known once the path has been saturated
	delete(wanted, "achbridge_link_rate_bytes_per_second")
	await.NoError(t, func() error {
		resp, err := http.Get("http://" + pc.address + "/metrics")
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		for name, file := range wanted {
			if !regexp.MustCompile(`(?m)^` + name + `[{ ]`).Match(text) {
				err = errors.Join(err, fmt.Errorf("not exported: %s of %s", name, file))
			}
		}
		return err
	})
	if len(wanted) < 15 {
		t.Errorf("dashboard and alerts: got only %d metrics", len(wanted))
	}
}

func TestDashboardIsValid(t *testing.T) {
	var d struct {
		Title  string
		Panels []struct {
			ID      int
			Title   string
			GridPos struct{ X, Y, W, H int }
			Targets []struct{ Expr string }
		}
		Templating struct{ List []struct{ Name string } }
	}
	if err := json.Unmarshal([]byte(textOf(t, dashboard)), &d); err != nil {
		t.Fatal(err)
	}
	var known []string
	for _, v := range d.Templating.List {
		known = append(known, v.Name)
	}
	taken := map[[2]int]string{}
	for _, p := range d.Panels {
		if len(p.Targets) == 0 {
			t.Errorf("panel %s has no queries", p.Title)
		}
		for _, target := range p.Targets {
			for _, v := range regexp.MustCompile(`\$(\w+)`).FindAllStringSubmatch(target.Expr, -1) {
				if v[1] != "__rate_interval" && !slices.Contains(known, v[1]) {
					t.Errorf("panel %s: $%s is not a variable of the dashboard", p.Title, v[1])
				}
			}
		}
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other := taken[[2]int{x, y}]; other != "" || x >= 24 {
					t.Fatalf("panel %s overlaps %q or is outside the grid", p.Title, other)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
	}
}

func textOf(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
