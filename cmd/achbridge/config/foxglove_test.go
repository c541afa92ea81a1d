package config

import (
	"slices"
	"strings"
	"testing"
)

func TestFoxgloveSectionIsChecked(t *testing.T) {
	for text, want := range map[string]string{
		"foxglove: {listen: ':8765'}":                                    "",
		"foxglove: {listen: '127.0.0.1:8765'}":                           "",
		"foxglove: {listen: '[::1]:8765'}":                               "",
		"foxglove: {listen: 'localhost:8765'}":                           "",
		"foxglove: {listen: '0.0.0.0:8765', cert: pem}":                  "",
		"foxglove: {origins: ['https://viewer.example.com', 'file://']}": "",
		"foxglove: {listen: '0.0.0.0:8765'}":                             `foxglove.listen: "0.0.0.0:8765": other hosts could connect, and the token would cross the network unencrypted: give cert too, or --foxglove-cert FILE`,
		"foxglove: {listen: '[::]:8765'}":                                "other hosts could connect",
		"foxglove: {listen: '192.168.1.7:8765'}":                         "other hosts could connect",
		"foxglove: {listen: '8765'}":                                     `"8765": want :PORT, ADDRESS:PORT or off, as in :8765`,
		"foxglove: {origins: ['*']}":                                     `foxglove.origins[0]: "*": want an origin as browsers send it`,
		"foxglove: {origins: ['https://viewer.example.com/']}":           "want an origin as browsers send it",
		"foxglove: {origins: [viewer.example.com]}":                      "want an origin as browsers send it",
		"foxglove: {origins: ['https://me:secret@viewer.example.com/']}": "want an origin as browsers send it",
		"foxglove: {listen: ':8765', set: [gains]}":                      "set",
	} {
		c, err := Source{Env: func(string) string { return "" }}.Read("a.yaml", []byte(text+"\n"))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
		if err == nil && strings.Contains(text, "origins") && !slices.Equal(c.FoxgloveOrigins, []string{"https://viewer.example.com", "file://"}) {
			t.Errorf("%s: got origins %q", text, c.FoxgloveOrigins)
		}
	}
	for name, want := range map[string]bool{"foxglove.listen": true, "foxglove.cert": true, "foxglove.origins": false} {
		if key, ok := keyNamed(name); !ok || key.fixed != want {
			t.Errorf("%s: got fixed %v, want %v", name, key.fixed, want)
		}
	}
}
