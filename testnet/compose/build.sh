#!/usr/bin/env bash
# Prepare hub.yml: the image of all hosts, and a hub with the credentials of four hosts
# below hub/, made anew each time.
#
#   bash testnet/compose/build.sh && docker-compose -f testnet/compose/hub.yml up --build
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
bash "$here/../image/build.sh"
home=$here/../image/root/opt/achbridge
achbridge() { "$home/lib/ld.so" "$home/bin/achbridge" "$@"; } # its loader is not where it will be

rm -rf "$here/hub"
mkdir -m 700 "$here/hub"
achbridge hub init hub --dir "$here/hub/directory" >/dev/null
for host in robot atlas planner operator; do
	achbridge hub add "$host" --dir "$here/hub/directory" --out "$here/hub/$host.creds" >/dev/null
done
