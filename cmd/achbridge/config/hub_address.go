package config

import (
	"fmt"
	"net/url"
)

// parseHubAddress checks where a hub is: tls://HOST or tls://HOST:PORT; "" is where the credentials say.
func parseHubAddress(text string) (string, error) {
	at, err := url.Parse(text)
	if text != "" && (err != nil || at.Scheme != "tls" || at.Hostname() == "" || at.User != nil || at.Path != "" || at.RawQuery != "" || at.Fragment != "") {
		return "", fmt.Errorf("%q: want tls://HOST or tls://HOST:PORT, as in tls://hub.example.com", text)
	}
	return text, nil
}

// checkHub reports a hub without credentials. What is in their file, who opens it sees.
func (c *Config) checkHub(b *ruleBuilder) {
	if c.Hub != "" && c.HubCreds == "" {
		b.add(c.placeOf("hub", -1), "it needs hub_creds too, or --hub-creds: the file that achbridge hub add writes for this host")
	}
}

// CredentialsProblem is a mistake in the file that hub_creds names, with its place in the
// configuration.
func (c *Config) CredentialsProblem(err error) Problems {
	return Problems{{origin: c.placeOf("hub_creds", -1), Text: err.Error()}}
}
