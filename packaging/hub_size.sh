#!/usr/bin/env bash
# Check that the hub adds at most 15 MB to the program, and that the tag nohub leaves it out:
#
#   bash packaging/hub_size.sh
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() { echo "FAILED: $*" >&2 && exit 1; }

go build -ldflags '-s -w' -o "$work/with" ./cmd/achbridge
go build -ldflags '-s -w' -tags nohub -o "$work/without" ./cmd/achbridge
more=$((($(stat -c %s "$work/with") - $(stat -c %s "$work/without")) / 1000000))
echo "the hub adds $more MB"
[ $more -ge 1 ] && [ $more -lt 15 ] || fail "the hub adds $more MB, want at most 15, and not nothing"

! go list -deps -tags nohub ./cmd/achbridge | grep -F github.com/nats-io || fail "without the hub the program is linked with NATS all the same"

said=$("$work/without" hub --dir hub 2>&1) && fail "hub succeeds in a program without it"
[[ $said == "achbridge: hub: this program was built without the hub, with the tag nohub"* ]] || fail "without the hub it says: $said"
