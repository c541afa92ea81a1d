package config

import (
	"strings"
	"testing"
)

func TestKernelRiskIsNamed(t *testing.T) {
	for text, want := range map[string]string{
		"kernel: true":  "achbridge.yaml:1:9: kernel: it exports kernel channels, so this host can crash if a program removes one and creates one without a pause",
		"kernel: false": "",
		"log: info":     "",
	} {
		c, err := Source{Env: func(string) string { return "" }}.Read("achbridge.yaml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if got := c.KernelRisk(); !strings.HasPrefix(got, want) || want == "" && got != "" {
			t.Errorf("%s: KernelRisk() = %q, want %q", text, got, want)
		}
	}
}

func TestKernelValues(t *testing.T) {
	for text, want := range map[string]string{
		"mirror": `"mirror": mirrors are not made in the kernel, since its module can crash there; want true, to export kernel channels, or false`,
		"maybe":  `"maybe": want true or false`,
	} {
		if _, err := parseKernel(text); err == nil || err.Error() != want {
			t.Errorf("parseKernel(%s) = %v, want %s", text, err, want)
		}
	}
}
