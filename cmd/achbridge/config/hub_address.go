package config

import (
	"fmt"
	"net/url"
)

// parseHubAddress checks the address of a hub: tls://HOST or tls://HOST:PORT. "" means the address in the credentials.
func parseHubAddress(text string) (string, error) {
	at, err := url.Parse(text)
	if text != "" && (err != nil || at.Scheme != "tls" || at.Hostname() == "" || at.User != nil || at.Path != "" || at.RawQuery != "" || at.Fragment != "") {
		return "", fmt.Errorf("%q: want tls://HOST or tls://HOST:PORT, as in tls://hub.example.com", text)
	}
	return text, nil
}

// checkHub records a problem if a hub is set without credentials. It does not read the credentials file.
func (c *Config) checkHub(b *ruleBuilder) {
	if c.Hub != "" && c.HubCreds == "" {
		b.add(c.placeOf("hub", -1), "it needs hub_creds too, or --hub-creds: the file that achbridge hub add writes for this host")
	}
}

// CredentialsProblem returns an error of the credentials file as a problem at the position of
// hub_creds in the configuration.
func (c *Config) CredentialsProblem(err error) Problems {
	return Problems{{origin: c.placeOf("hub_creds", -1), Text: err.Error()}}
}
