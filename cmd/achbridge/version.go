package main

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// build is the JSON output of `version`.
type build struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Modified bool   `json:"modified"`
	Go       string `json:"go"`
	OS       string `json:"os"`
	Arch     string `json:"arch"`
}

// release is the version of a packaged build, set by the linker (packaging/build.sh).
// It is empty in other builds.
var release string

func versionCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:         "version",
		Short:       "Print the version",
		Example:     examples("achbridge version", "achbridge version --json"),
		Annotations: docs("docs/configuration.md"),
		Args:        takes(),
		RunE: func(*cobra.Command, []string) error {
			b := buildOf(debug.ReadBuildInfo())
			if a.asJSON {
				return a.ui.JSON(b)
			}
			return a.ui.Line("%s", versionLine())
		},
	}
	a.jsonFlag(cmd)
	return cmd
}

// versionLine returns the output of `version` and --version.
func versionLine() string {
	b := buildOf(debug.ReadBuildInfo())
	line := "achbridge " + b.Version
	if b.Revision != "" {
		line += " " + b.Revision[:min(12, len(b.Revision))]
	}
	if b.Modified {
		line += " (modified)"
	}
	return fmt.Sprintf("%s, %s, %s/%s", line, b.Go, b.OS, b.Arch)
}

// version returns the version of this program.
func version() string { return buildOf(debug.ReadBuildInfo()).Version }

func buildOf(info *debug.BuildInfo, ok bool) build {
	b := build{Version: cmp.Or(release, "(devel)"), Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH}
	if !ok {
		return b
	}
	b.Version = cmp.Or(release, info.Main.Version, b.Version)
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Revision = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b
}
