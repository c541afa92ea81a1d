package docs_test

import (
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var link = regexp.MustCompile(`\[[^\]]*\]\(([^)\s]+)\)`)

// TestLinksInDocumentsAreValid checks links to documents, to files and to headings. It does not
// check links to the web.
func TestLinksInDocumentsAreValid(t *testing.T) {
	for _, path := range documents(t) {
		for _, m := range link.FindAllStringSubmatch(prose(t, path), -1) {
			u, err := url.Parse(m[1])
			if err != nil {
				t.Errorf("%s: %v", path, err)
				continue
			}
			if u.Scheme != "" {
				continue
			}
			target := path
			if u.Path != "" {
				target = filepath.Join(filepath.Dir(path), u.Path)
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: link %s: %v", path, m[1], err)
			} else if u.Fragment != "" && !slices.Contains(anchors(t, target), u.Fragment) {
				t.Errorf("%s: link %s: %s has no such heading; it has %q", path, m[1], target, anchors(t, target))
			}
		}
	}
}

// anchors returns the names of a document's headings in links.
func anchors(t *testing.T, path string) (list []string) {
	t.Helper()
	for _, m := range regexp.MustCompile(`(?m)^#+ +(.*)$`).FindAllStringSubmatch(prose(t, path), -1) {
		name := strings.ToLower(regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(m[1], ""))
		list = append(list, strings.ReplaceAll(name, " ", "-"))
	}
	return list
}

// TestTroubleshootingListsEveryCause checks that the table of diagnoses has exactly the causes of the code.
func TestTroubleshootingListsEveryCause(t *testing.T) {
	want := append(causes(t), "well")
	var got []string
	for _, m := range regexp.MustCompile("(?m)^\\| (`[a-z0-9_]+`(?:, `[a-z0-9_]+`)*) \\| .+ \\| .+ \\|$").FindAllStringSubmatch(prose(t, "troubleshooting.md"), -1) {
		for _, cause := range strings.Split(m[1], ", ") {
			got = append(got, strings.Trim(cause, "`"))
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("causes in troubleshooting.md: got\n%q, want\n%q", got, want)
	}
}

// causes returns the constants of type Cause, in any package below bridge.
func causes(t *testing.T) (list []string) {
	t.Helper()
	files, err := filepath.Glob("../bridge/*.go")
	if err != nil {
		t.Fatal(err)
	}
	below, _ := filepath.Glob("../bridge/*/*.go")
	for _, path := range append(files, below...) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?m)^\s+(?:Cause)?[A-Z]\w* +Cause += "([a-z0-9_]+)"`).FindAllStringSubmatch(string(text), -1) {
			list = append(list, m[1])
		}
	}
	if len(list) < 20 {
		t.Fatalf("got the causes %q, want those of type Cause in bridge/", list)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// TestArchitectureListsEveryPackage checks that the table of ARCHITECTURE.md lists each package of the
// module, or its directory.
func TestArchitectureListsEveryPackage(t *testing.T) {
	var rooms []string // a row names one or more packages
	for _, row := range regexp.MustCompile("(?m)^\\| (`[a-z0-9/]+`(, `[a-z0-9/]+`)*) \\| .+ \\|$").FindAllStringSubmatch(prose(t, "../ARCHITECTURE.md"), -1) {
		first := ""
		for name := range strings.SplitSeq(strings.ReplaceAll(row[1], "`", ""), ", ") {
			if first == "" {
				first = name
			} else if !strings.Contains(name, "/") {
				name = path.Join(path.Dir(first), name)
			}
			rooms = append(rooms, name)
		}
	}
	out, err := exec.Command("go", "list", "../...").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, pkg := range strings.Fields(string(out)) {
		dir := strings.TrimPrefix(pkg, "achbridge/")
		if !slices.Contains(rooms, dir) && !regexp.MustCompile(`^(testnet/.*|packaging.*|docs)$`).MatchString(dir) {
			t.Errorf("ARCHITECTURE.md has no line for package %s", dir)
		}
	}
	if len(rooms) < 15 {
		t.Errorf("packages in ARCHITECTURE.md: got %q, want each package", rooms)
	}
}
