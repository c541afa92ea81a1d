#!/usr/bin/env bash
# Start the hosts, wait for the channels between them, and fail if frames are older than 100 ms.
# With Compose v2: COMPOSE="docker compose" bash test.sh
set -euo pipefail
cd "$(dirname "$0")"
compose=${COMPOSE:-docker-compose}

# A key for this run.
export ACHBRIDGE_KEY_TEXT=${ACHBRIDGE_KEY_TEXT:-achkey1-$(head -c 32 /dev/urandom | basenc --base64url -w 0 | tr -d =)}

finish() {
	local code=$?
	[ "$code" = 0 ] || $compose logs --tail 40
	$compose down --timeout 5
	exit "$code"
}
trap finish EXIT
$compose up --build --detach
$compose exec -T planner achbridge wait robot.joints --timeout 30s
$compose exec -T robot achbridge wait plan --timeout 30s
$compose exec -T planner achbridge age robot.joints --window 5s --fail-above 100ms
$compose exec -T robot achbridge age plan --window 5s --fail-above 100ms
