package main

import (
	"crypto/x509"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"achbridge/cmd/achbridge/api"
)

// The status contains the addresses of the hub and of a server that answered at the hub's address. Names of mirrors may begin
// with an address.
func TestBugreportHidesAddresses(t *testing.T) {
	foreign := x509.HostnameError{Certificate: &x509.Certificate{DNSNames: []string{"marker.example.org", "marker.example.net"}}, Host: "markerhub.example.com"}
	s := api.StatusReply{
		Hub:  &api.Hub{Address: "tls://markerhub.example.com:4222", Error: "hub tls://markerhub.example.com:4222: " + foreign.Error()},
		Achd: &api.Achd{Listen: "markerachd.example.com:8076"},
	}
	r := &report{private: map[string]bool{}}
	r.hide(s)
	r.hideVariables(func(name string) string {
		return map[string]string{"ACHBRIDGE_HUB": "https://markervariable.example.com", "ACHBRIDGE_NAME": "krang.local"}[name]
	})
	r.json("status", s, nil)
	r.section("mirrors", "10.77.0.5.camera 10.77.0.5 achd-10.77.0.6.goal krang.camera 1.2.3")
	r.section("doctor", `configuration: $ACHBRIDGE_HUB: "https://markervariable.example.com"; connected to tls://markerhub.example.com:4222; krang.local`)
	got := string(r.scrubbed())
	if found := regexp.MustCompile(`marker.*|10\.77.*`).FindString(got); found != "" {
		t.Errorf("got %q in the report", found)
	}
	for _, want := range []string{"krang.local", "krang.camera 1.2.3"} {
		if !strings.Contains(got, want) {
			t.Errorf("got %s, want %q kept", got, want)
		}
	}
}

// A text below a misspelt key may be a secret, so the report hides all occurrences of it. A word
// such as false, or a digit, occurs in many places of the report and stays.
func TestBugreportHidesValuesOfMisspeltKeys(t *testing.T) {
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
