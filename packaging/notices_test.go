package packaging_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

func TestPackageHasLicencesOfAllLinkedModules(t *testing.T) {
	notices, err := exec.Command("bash", "notices.sh").Output()
	if err != nil {
		t.Fatalf("notices.sh: %v", err)
	}
	list, err := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}}{{end}}{{end}}", "../cmd/achbridge").Output()
	if err != nil {
		t.Fatal(err)
	}
	modules := strings.Split(strings.TrimSpace(string(list)), "\n")
	for _, module := range append(modules, "The Go library and runtime") {
		if !strings.Contains(string(notices), "\n"+module) {
			t.Errorf("%s: got no licence, want one", module)
		}
	}
	for _, text := range []string{"Permission is hereby granted", "Apache License", "Redistribution and use in source and binary forms"} {
		if !strings.Contains(string(notices), text) {
			t.Errorf("got no licence with %q", text)
		}
	}
	for file, line := range map[string]string{"nfpm.yaml": "/usr/share/doc/achbridge/NOTICES", "build.sh": "packaging/notices.sh"} {
		if content, err := os.ReadFile(file); err != nil || !strings.Contains(string(content), line) {
			t.Errorf("%s does not have %s: %v", file, line, err)
		}
	}
}
