package config

import (
	"slices"
	"strings"

	"achbridge/cmd/achbridge/ui"
)

// ShmVariable is the environment variable that sets the directory of the channels.
const ShmVariable = "ACHBRIDGE_SHM"

// testVariables are the names, without ACHBRIDGE_, of environment variables for the project's tests and packaging. Commands that
// tests start inherit them, and must not warn about them.
var testVariables = []string{
	"CLOCK", "DISCOVERY_NODE", "HUB_ROLE", "HUB_SCENE", "KILLS", "LAB", "LAB_MAIN_CALL", "LONG", "NO_SKIP", "PROGRAMS",
	"RADIO", "SEED", "SEEDS", "SHOTS", "SOAK", "SUSPEND", "TEST_HUB", "TEST_INIT", "TEST_OBSERVER", "TRACES",
}

// UnknownVariables returns a sentence for each variable in environ (as os.Environ returns it) whose name begins with
// ACHBRIDGE_ and that no command reads. It ignores empty variables. It also ignores ACHBRIDGE_SERVICE_… and ACHBRIDGE_PORT…,
// which Kubernetes sets in containers if a service is called achbridge.
func UnknownVariables(environ []string) (list []string) {
	known := append(Variables(), EnvName("config"), KeyText, ShmVariable)
	for _, entry := range environ {
		variable, value, _ := strings.Cut(entry, "=")
		name, ours := strings.CutPrefix(variable, EnvName(""))
		if !ours || value == "" || slices.Contains(known, variable) || slices.Contains(testVariables, name) ||
			strings.Contains(variable, "_SERVICE_") || strings.Contains(variable, "_PORT") {
			continue
		}
		list = append(list, variable+": "+unknownVariableText(name, known))
	}
	slices.Sort(list)
	return list
}

func unknownVariableText(name string, known []string) string {
	for _, k := range configKeys {
		if k.variable() == "" && (EnvName(k.name) == EnvName(name) || EnvName(k.flagName()) == EnvName(name)) {
			return "not used; " + k.name + " is set in the configuration file or by a flag"
		}
	}
	names := make([]string, len(known))
	for i, k := range known {
		names[i] = strings.TrimPrefix(k, EnvName(""))
	}
	if near := ui.Nearest(name, names); near != "" {
		return "unknown variable; did you mean " + EnvName(near) + "?"
	}
	return "unknown variable; man achbridge-run lists those that exist"
}
