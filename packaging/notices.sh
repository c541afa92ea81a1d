#!/usr/bin/env bash
# Print the licences of all that is linked into achbridge, with their notices: of the Go
# library and of each module, as the module cache has them. Who passes the program on
# passes this on too, which the licences ask for:
#
#   bash packaging/notices.sh >NOTICES
#
# GOARCH says for which program. A module without a licence is a failure.
set -euo pipefail
cd "$(dirname "$0")/.."
export CGO_ENABLED=1

line=$(printf '=%.0s' {1..78})
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# of MODULE VERSION ROOT: its licences, those of its linked packages included.
of() {
	local module=$1 version=$2 root=$3 file found=
	while read -r file; do
		found=yes
		printf '\n%s\n%s %s: %s\n\n' "$line" "$module" "$version" "${file#"$root"/}"
		cat "$file"
	done < <(grep -F "$root/" "$work/licences")
	[ -n "$found" ] || { echo "FAILED: $module $version has no licence in $root" >&2 && exit 1; }
}

# MODULE VERSION ROOT DIR of each linked package, and then the licences in its directory
# and in those above it.
go list -deps -f '{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}} {{.Dir}} {{end}}{{end}}{{if .Module}}{{.Dir}}{{end}}' ./cmd/achbridge |
	awk 'NF == 4' >"$work/packages"
awk '{ for (dir = $4; ; sub("/[^/]*$", "", dir)) { print dir; if (dir == $3) break } }' "$work/packages" | sort -u >"$work/dirs"
xargs -d '\n' sh -c 'find "$@" -maxdepth 1 -type f -regextype posix-extended -iregex ".*/(licen[sc]e|copying|copyright|notice|patents)([-.][^/]*)?" ! -name "*.go"' find \
	<"$work/dirs" | sort -u >"$work/licences"

echo "achbridge is linked with the following, whose licences ask for these notices."
printf '\n%s\nThe Go library and runtime %s\n\n' "$line" "$(go env GOVERSION)"
cat "$(go env GOROOT)/LICENSE"
sort -u <(cut -d' ' -f1-3 "$work/packages") | while read -r module version root; do of "$module" "$version" "$root"; done
