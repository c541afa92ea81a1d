#!/usr/bin/env bash
# Make a fresh Debian system for packaging/test.sh and packaging/vm.sh:
#
#   bash packaging/debian.sh DIR
#
# As root, with debootstrap of Debian.
set -euo pipefail

# systemd-sysv, kmod and iproute2 are for the computer of vm.sh.
log=$(mktemp)
trap 'rm -f "$log"' EXIT
debootstrap --variant=minbase --include=systemd,systemd-sysv,adduser,kmod,iproute2 bookworm "$1" >"$log" ||
	{ echo "FAILED: debootstrap: $(tail -n 5 "$log")" >&2 && exit 1; }
