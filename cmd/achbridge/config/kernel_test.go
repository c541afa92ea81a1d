package config

import (
	"strings"
	"testing"
)

func TestKernelRiskIsNamed(t *testing.T) {
	for text, want := range map[string]string{
		"kernel: true":   "achbridge.yaml:1:9: kernel: it exports kernel channels, so this host can crash if a program removes one and creates one without a pause",
		"kernel: mirror": "achbridge.yaml:1:9: kernel: it exports kernel channels, so this host can crash if a program removes one and creates one without a pause",
		"kernel: false":  "",
		"log: info":      "",
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
	for text, want := range map[string]Kernel{"false": KernelUnused, "true": KernelExports, "mirror": KernelMirrors} {
		if got, err := parseKernel(text); err != nil || got != want || got.String() != text {
			t.Errorf("parseKernel(%s) = %v, %v, want %v", text, got, err, want)
		}
	}
	if _, err := parseKernel("maybe"); err == nil || !strings.HasPrefix(err.Error(), `"maybe": want false; true, `) {
		t.Errorf("parseKernel(maybe) = %v, want the values in an error", err)
	}
}

func TestMirrorsNotInKernelAreNamed(t *testing.T) {
	const rules = `
mirror: [krang/imu, {match: krang/goal, class: command, budget: 50ms}, {match: krang/map, file_mode: 0600}]
accept: [{match: ref, class: command, budget: 50ms}]
`
	for kernel, want := range map[string]int{"mirror": 3, "true": 0} {
		c, err := Source{Env: func(string) string { return "" }}.Read("achbridge.yaml", []byte("kernel: "+kernel+rules))
		if err != nil {
			t.Fatal(err)
		}
		if got := c.NotInKernel(); len(got) != want {
			t.Errorf("kernel: %s: NotInKernel() = %q, want %d warnings", kernel, got, want)
		}
	}
}
