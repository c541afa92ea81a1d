#!/usr/bin/env bash
# Print what makes the program large, by module, and check that it contains no more than it needs:
#
#   bash packaging/size.sh
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() { echo "FAILED: $*" >&2 && exit 1; }
megabytes() { awk -v bytes="$(stat -c %s "$1")" 'BEGIN {printf "%.1f MB\n", bytes / 1e6}'; }

go build -o "$work/debug" ./cmd/achbridge
go build -ldflags '-s -w' -o "$work/with" ./cmd/achbridge
go build -ldflags '-s -w' -tags nohub -o "$work/without" ./cmd/achbridge
echo "with debug information: $(megabytes "$work/debug")"
echo "in the package:         $(megabytes "$work/with")"
echo "without the hub:        $(megabytes "$work/without")"

# Code and data of each module. The rest of the file, about a third, is tables for stack traces and the garbage collector.
go tool nm -size "$work/debug" | awk '
	$3 ~ /[tTrRdD]/ {
		module = "Go, with its standard library"
		if ($4 ~ /^(achbridge|main)[.\/]/)
			module = "achbridge"
		else if ($4 !~ /^vendor/ && match($4, /(github\.com|golang\.org|google\.golang\.org|go\.yaml\.in|mvdan\.cc|charm\.land)\/[^\/]+(\/[^.\/(]+)?/))
			module = substr($4, RSTART, RLENGTH)
		size[module] += $2
	}
	$4 == "crypto/internal/fips140/drbg.memory" {size[module] -= $2} # this variable is all zeros, which the file does not contain
	END {for (module in size) if (size[module] >= 2e5) printf "%6.1f MB  %s\n", size[module] / 1e6, module}' | sort -rn

more=$((($(stat -c %s "$work/with") - $(stat -c %s "$work/without")) / 1000000))
[ $more -ge 1 ] && [ $more -lt 15 ] || fail "the hub adds $more MB, want at most 15, and not nothing"
! go list -deps -tags nohub ./cmd/achbridge | grep -F github.com/nats-io || fail "without the hub the program is linked with NATS all the same"
said=$("$work/without" hub --dir hub 2>&1) && fail "hub succeeds in a program without it"
[[ $said == "achbridge: hub: this program was built without the hub, with the tag nohub"* ]] || fail "without the hub it says: $said"

# A template may call any method, so with templates the linker keeps all methods of all types: 5 MB.
! go tool nm "$work/debug" | grep -q 'text/template.*evalField' || fail "text/template is in the program again"
