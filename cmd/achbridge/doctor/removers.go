package doctor

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"achbridge/cmd/achbridge/ui"
	"achbridge/localach"
)

// remover is a setting or script of this host that removes channels while programs use them.
type remover struct{ text, fix string }

// Removers returns the settings and scripts that remove channels of dir while programs use them, each as a sentence with its fix.
func Removers(dir localach.Dir) (list []string) {
	for _, r := range removersOf(dir, "/") {
		list = append(list, r.text+": "+r.fix)
	}
	return list
}

// removersOf is Removers for a host whose root directory is root.
func removersOf(dir localach.Dir, root string) (list []remover) {
	if dir != localach.Shm {
		return nil
	}
	if owners := ownersWhoLogOut(dir, root); len(owners) > 0 {
		list = append(list, remover{
			fmt.Sprintf("systemd-logind removes the channels of %s at logout (RemoveIPC)", ui.AndList(owners)),
			"RemoveIPC=no in /etc/systemd/logind.conf; or loginctl enable-linger " + owners[0] + "; or run the programs as a system user",
		})
	}
	if line := cleanedBy(root); line != "" {
		list = append(list, remover{
			"systemd-tmpfiles removes channels by their age (" + line + ")",
			"echo 'x /dev/shm/achshm-*' | sudo tee /etc/tmpfiles.d/ach.conf",
		})
	}
	for _, line := range scriptsThatRemove(root) {
		list = append(list, remover{
			"a script removes all channels (" + line + ")",
			"remove that line; or run it before all programs that use channels, in a unit with Before=achbridge.service",
		})
	}
	return list
}

// cleanedBy returns the first rule of tmpfiles.d(5), as FILE: RULE, by which systemd-tmpfiles removes channels by their age, or "" if
// there is none. The age of a channel in use grows too, since a put does not change the times of the file.
func cleanedBy(root string) (rule string) {
	files := map[string]string{} // paths by file name: a file in /etc replaces those in /run and /usr/lib
	for _, dir := range []string{"usr/lib", "run", "etc"} {
		found, _ := filepath.Glob(filepath.Join(root, dir, "tmpfiles.d/*.conf"))
		for _, file := range found {
			files[filepath.Base(file)] = file
		}
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		for line := range strings.Lines(scriptText(files[name])) {
			fields := strings.Fields(line)
			if len(fields) < 2 {
				continue
			}
			kind, pattern, age := fields[0], strings.Trim(fields[1], `"`), "-"
			if len(fields) > 5 {
				age = fields[5]
			}
			switch {
			case strings.ContainsAny(kind[:1], "xX") && (matches(pattern, localach.Shm.Path("imu")) || matches(pattern, string(localach.Shm))):
				return ""
			case strings.ContainsAny(kind[:1], "dDevqQ") && age != "-" && rule == "" && matches(pattern, string(localach.Shm)):
				rule = pathIn(root, files[name]) + ": " + strings.TrimSpace(line)
			}
		}
	}
	return rule
}

// pathIn returns the path that a file below root has on the host with that root directory.
func pathIn(root, file string) string {
	return "/" + strings.TrimPrefix(strings.TrimPrefix(file, root), "/")
}

func matches(pattern, name string) bool {
	ok, _ := filepath.Match(strings.TrimSuffix(pattern, "/"), name)
	return ok
}

// startScripts has patterns of files with commands that may run at boot or on a schedule.
var startScripts = []string{"etc/rc.local", "etc/crontab", "etc/cron.*/*", "etc/init.d/*", "etc/systemd/system/*.service", "etc/systemd/system/*.d/*.conf", "usr/local/bin/*", "usr/local/sbin/*"}

// removesShm matches a command that removes all channels: rm or find -delete in /dev/shm.
var removesShm = regexp.MustCompile(`(^|[\s;&|(=/"'])(rm\s([^;&|]*\s)?["']?/dev/shm/?(ach(shm-)?)?["']?\*?["']?(\s|;|&|\||$)|find\s+/dev/shm/?\s[^;&|]*-delete)`)

// scriptText returns the content of a script, or of a configuration file. It returns "" for programs, which are larger, and for
// files that are not regular, since reading them may block.
func scriptText(file string) string {
	const maxScript = 256 << 10 // bytes
	info, err := os.Stat(file)
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxScript {
		return ""
	}
	text, _ := os.ReadFile(file)
	return string(text)
}

// scriptsThatRemove returns the lines of scripts that remove all channels, as FILE:LINE: TEXT. Lines of more than 1000 bytes are
// not examined: people do not write them.
func scriptsThatRemove(root string) (list []string) {
	for _, pattern := range startScripts {
		found, _ := filepath.Glob(filepath.Join(root, pattern))
		for _, file := range found {
			number := 0
			for line := range strings.Lines(scriptText(file)) {
				number++
				if len(line) > 1000 || !strings.Contains(line, string(localach.Shm)) {
					continue // before the regular expression, which is slow
				}
				if line = printable(strings.TrimSpace(line)); !strings.HasPrefix(line, "#") && removesShm.MatchString(line) {
					list = append(list, fmt.Sprintf("%s:%d: %s", pathIn(root, file), number, line))
				}
			}
		}
	}
	return list
}

// printable returns text with blanks instead of characters that control a terminal.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, text)
}

// isContainerShm reports whether /dev/shm has the 64 MiB that container engines give by default.
func isContainerShm(root string) bool {
	text, _ := os.ReadFile(filepath.Join(root, "proc/self/mounts"))
	size := ""
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) > 3 && fields[1] == string(localach.Shm) {
			size = optionOf(fields[3], "size") // if several file systems are mounted on a directory, the last one applies
		}
	}
	return size == "65536k" || size == "64m"
}

// optionOf returns the value of a mount option, "" if it is not set.
func optionOf(options, name string) string {
	for option := range strings.SplitSeq(options, ",") {
		if value, ok := strings.CutPrefix(option, name+"="); ok {
			return value
		}
	}
	return ""
}
