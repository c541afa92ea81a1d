// Language counts unclear wording in the Go files of the repository: comments that read
// like a word-by-word translation, retired names, doc comments that do not begin with the
// name they describe. rules.txt lists the rules and how many hits each may have. These
// counts may only fall: the check compares them with all commits of that file.
//
//	go run ./.ci/language                  fails unless each rule has its allowed number of hits
//	go run ./.ci/language -hits [PATH]...  prints the hits in files whose names begin with PATH
//	go run ./.ci/language -lower           lowers the counts in rules.txt to the hits there are
package main

import (
	"cmp"
	"flag"
	"fmt"
	"go/token"
	"io"
	"log"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

const rulesFile = ".ci/language/rules.txt"

func main() {
	log.SetFlags(0)
	showHits := flag.Bool("hits", false, "print the hits")
	lower := flag.Bool("lower", false, "lower the counts in "+rulesFile)
	flag.Parse()

	content := string(must(os.ReadFile(rulesFile)))
	rules := must(parseRules(content))
	reader := reader{files: token.NewFileSet(), words: map[string]bool{}}
	for _, file := range strings.Fields(git("grep", "-l", "--untracked", "", "--", "*.go", "*.[ch]", "*.js", "*.sh")) {
		must(0, reader.read(file, string(must(os.ReadFile(file)))))
	}
	fmt.Println(rules.match(reader.found(), flag.Args()))
	switch {
	case *showHits:
		rules.print(os.Stdout)
	case *lower:
		must(0, os.WriteFile(rulesFile, []byte(rules.lower(content)), 0o644))
	case !rules.check(os.Stdout, lowestCounts(git("log", "-p", "--format=", "--", rulesFile))):
		os.Exit(1)
	}
}

func git(args ...string) string {
	return string(must(exec.Command("git", args...).Output()))
}

func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}

// rule is one line of rules.txt.
type rule struct {
	allowed int
	key     string // kind and patterns, as they are in the file
	kind    string
	pattern *regexp.Regexp
	except  *regexp.Regexp // a match of pattern that this matches too is no hit
	instead string
	hits    []string
}

type rules []*rule

var ruleLine = regexp.MustCompile(`(?m)^\+?(\d+) +((comment|funcdoc|misnamed|unknown|name|field|log|test) +(\S.*?)(?: +EXCEPT +(\S.*?))?) +=> +(\S.*)$`)

// parseRules reads rules.txt, whose first lines explain its form.
func parseRules(content string) (list rules, err error) {
	for line := range strings.Lines(content) {
		if line == "\n" || line[0] == '#' {
			continue
		}
		m := ruleLine.FindStringSubmatch(line)
		if m == nil {
			return nil, fmt.Errorf("not a rule: %s", line)
		}
		allowed, _ := strconv.Atoi(m[1])
		pattern := strings.ReplaceAll(m[4], " ", `\s`) // also matches the end of a line
		except := cmp.Or(m[5], `[^\s\S]`)              // matches nothing
		list = append(list, &rule{allowed, m[2], m[3], regexp.MustCompile(pattern), regexp.MustCompile(except), m[6], nil})
	}
	return list, nil
}

// match records the hits of the rules in texts of files that begin with one of paths, or of
// all files if there is none, and returns the share of comments with a hit.
func (list rules) match(texts []text, paths []string) string {
	comments, flagged := 0, 0
	for _, t := range texts {
		if len(paths) > 0 && !slices.ContainsFunc(paths, func(p string) bool { return strings.HasPrefix(t.file, p) }) {
			continue
		}
		found := 0
		for _, r := range list {
			if r.kind == t.kind {
				found += r.match(t)
			}
		}
		if t.kind == "comment" {
			comments++
			flagged += min(found, 1)
		}
	}
	return fmt.Sprintf("%d comments, %.1f %% with a hit", comments, 100*float64(flagged)/float64(max(1, comments)))
}

func (r *rule) match(t text) (found int) {
	for _, at := range r.pattern.FindAllStringIndex(t.text, -1) {
		if !r.except.MatchString(t.text[at[0]:at[1]]) {
			found++
			r.hits = append(r.hits, t.excerpt(at[0]))
		}
	}
	return found
}

// check prints each rule with more hits than are allowed now or were at any time, or with
// fewer than are allowed now, and reports whether there is none.
func (list rules) check(out io.Writer, lowest map[string]int) bool {
	ok := true
	for _, r := range list {
		most := r.allowed
		if was, isOld := lowest[r.key]; isOld {
			most = min(most, was)
		}
		switch n := len(r.hits); {
		case n > most:
			fmt.Fprintf(out, "%s: %d hits, at most %d allowed. Write %s. Where: go run ./.ci/language -hits FILE...\n", r.key, n, most, r.instead)
		case n < r.allowed:
			fmt.Fprintf(out, "%s: %d hits, %d allowed. Lower that: go run ./.ci/language -lower\n", r.key, n, r.allowed)
		default:
			continue
		}
		ok = false
	}
	return ok
}

func (list rules) print(out io.Writer) {
	for _, r := range list {
		if len(r.hits) > 0 {
			fmt.Fprintf(out, "%d  %s => %s\n    %s\n", len(r.hits), r.key, r.instead, strings.Join(r.hits, "\n    "))
		}
	}
}

// lower returns rules.txt with the counts of rules that have fewer hits than allowed.
func (list rules) lower(content string) string {
	for _, r := range list {
		line := regexp.MustCompile(`(?m)^\d+( +` + regexp.QuoteMeta(r.key) + ` +=>)`)
		content = line.ReplaceAllString(content, strconv.Itoa(min(r.allowed, len(r.hits)))+"$1")
	}
	return content
}

// lowestCounts returns the lowest count that each rule ever had, from `git log -p` of rules.txt.
func lowestCounts(history string) map[string]int {
	lowest := map[string]int{}
	for _, m := range ruleLine.FindAllStringSubmatch(history, -1) {
		count, _ := strconv.Atoi(m[1])
		if was, isOld := lowest[m[2]]; !isOld || count < was {
			lowest[m[2]] = count
		}
	}
	return lowest
}
