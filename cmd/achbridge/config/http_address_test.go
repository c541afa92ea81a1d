package config

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestHTTPHostsAreCheckedAndReloadable(t *testing.T) {
	for text, want := range map[string]string{
		"http_hosts: [robot.example.com, viz]": "",
		"http_hosts: ['*']":                    `http_hosts[0]: "*": want a name without port or pattern`,
		"http_hosts: ['http://viz']":           `http_hosts[0]: "http://viz": want a name without port or pattern`,
		"http_hosts: ['viz:80']":               `http_hosts[0]: "viz:80": want a name without port or pattern`,
		"http_hosts: viz":                      `want a list, as in ['robot.example.com']`,
	} {
		c, err := Source{Env: func(string) string { return "" }}.Read("a.yaml", []byte(text))
		if got := fmt.Sprint(err); (want == "") != (err == nil) || !strings.Contains(got, want) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
		if err == nil && !slices.Equal(c.HTTPHosts, []string{"robot.example.com", "viz"}) {
			t.Errorf("%s: got %q, want both names", text, c.HTTPHosts)
		}
	}
	if key, _ := keyNamed("http_hosts"); key.fixed {
		t.Error("a reload does not apply http_hosts")
	}
}
