#!/usr/bin/env bash
# Make a fresh Debian system for packaging/test.sh and packaging/vm.sh:
#
#   bash packaging/debian.sh DIR
#
# or only the files of another release, to run programs on its C library:
#
#   bash packaging/debian.sh DIR trixie
#
# As root, with debootstrap of Debian.
set -euo pipefail

# systemd-sysv, kmod and iproute2 are for the computer of vm.sh.
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if [ -n "${2-}" ]; then
	make=(--foreign "$2" "$1")
else
	make=(--include=systemd,systemd-sysv,adduser,kmod,iproute2 bookworm "$1")
fi
debootstrap --variant=minbase "${make[@]}" >"$log" ||
	{ echo "FAILED: debootstrap: $(tail -n 5 "$log")" >&2 && exit 1; }
[ -z "${2-}" ] || { rm "$1/proc" && mkdir "$1/proc"; } # a link to ours
