#!/usr/bin/env bash
# Try the packages in dist/ on a fresh Debian system: install, start the daemon as its
# unit says, mirror a channel, upgrade, purge; run the one for arm64 under qemu; and wake
# readers on the C library of the next Debian, which lays out what they wait on anew.
#
#   bash packaging/build.sh && bash packaging/test.sh
#
# As root, with Go, a C compiler, debootstrap, iproute2 and qemu-user of Debian. DEBIAN=DIR
# and TRIXIE=DIR take the systems from there instead of fetching them by packaging/debian.sh.
set -euo pipefail
cd "$(dirname "$0")/.."

fail() {
	echo "FAILED: $*" >&2
	exit 1
}

# wait_for TEXT COMMAND...: until the command prints TEXT, some 10 s.
wait_for() {
	local text=$1 out try
	shift
	for try in $(seq 100); do
		out=$("$@" 2>&1) || true
		[[ $out != *"$text"* ]] || return 0
		sleep 0.1
	done
	fail "never \"$text\" from: $*, but: $out"
}

# --- inside: namespaces of our own, the root still the machine's ---------------

enter=(env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root)
inside() { chroot "$root" "${enter[@]}" "$@"; }

exec_inside() { exec chroot "$root" "${enter[@]}" "$@"; } # for a process whose number counts

# What a service manager would do, by the lines of the unit itself: unit KEY [UNIT].
unit() { sed -n "s/^$1=//p" "$root/lib/systemd/system/${2-achbridge}.service" | head -n 1; }

start() {
	local before command
	before=$(unit ExecStartPre) && inside ${before#-+}
	command=$(unit ExecStart)
	install -d -m 755 "$root/run/achbridge"
	install -d -m 750 "$root/var/lib/achbridge"
	inside chown achbridge:ach /run/achbridge /var/lib/achbridge
	exec_inside setpriv --reuid "$(unit User)" --regid "$(unit Group)" --clear-groups --no-new-privs --bounding-set=-all --inh-caps=-all \
		env CONFIGURATION_DIRECTORY=/etc/achbridge RUNTIME_DIRECTORY=/run/achbridge STATE_DIRECTORY=/var/lib/achbridge \
		sh -c "umask $(unit UMask) && exec $command" 2>>"$work/daemon.log" &
	daemon=$!
	wait_for "pid $daemon" inside achbridge status -v
}

# The hub, as its unit says. There are no options, as the package has it.
start_hub() {
	local command user group
	command=$(unit ExecStart achbridge-hub)
	user=$(unit User achbridge-hub) group=$(unit Group achbridge-hub)
	install -d -m 700 "$root/run/achbridge-hub"
	inside chown "$user:$group" /run/achbridge-hub
	exec_inside setpriv --reuid "$user" --regid "$group" --clear-groups --no-new-privs --bounding-set=-all --inh-caps=-all \
		env RUNTIME_DIRECTORY=/run/achbridge-hub sh -c "umask $(unit UMask achbridge-hub) && exec ${command% *}" 2>>"$work/hub.log" &
	hub=$!
	wait_for 'running' inside achbridge hub check
}

try_hub() {
	echo '- a hub, by a user of its own'
	wait_for 'achbridge hub init' inside achbridge hub check
	inside achbridge hub init localhost
	[ "$(inside stat -c %U:%a /var/lib/achbridge-hub/key)" = achbridge-hub:600 ] || fail "the hub's key: $(inside stat -c %U:%a /var/lib/achbridge-hub/key)"
	inside achbridge hub add krang -o /tmp/krang.creds
	start_hub
	inside achbridge hub add atlas -o /tmp/atlas.creds
	wait_for atlas inside achbridge hub ls
	[ -d "$root"/run/achbridge-hub/achbridge-hub-* ] || fail "the nats-server's directory is elsewhere: $(ls "$root"/run/achbridge-hub)"
	! inside setpriv --reuid achbridge-hub --regid achbridge-hub --clear-groups cat /etc/achbridge/key 2>/dev/null || fail "the hub's user reads the network's key"
	grep -q 'CapEff:.*0000000000000000' "/proc/$hub/status" || fail 'the hub has capabilities'
	kill "$hub"
	wait "$hub" || fail "the hub did not leave in peace: $(tail -n 5 "$work/hub.log")"
	[ -z "$(ls "$root/run/achbridge-hub")" ] || fail "the hub left $(ls "$root/run/achbridge-hub")"
}

stop() {
	kill "$daemon"
	wait "$daemon" || fail "the daemon did not leave in peace: $(tail -n 5 "$work/daemon.log")"
}

# A robot on the same machine: its channels lie elsewhere.
robot() {
	install -d "$root/dev/shm/robot"
	ACHBRIDGE_SHM="$root/dev/shm/robot" "$work/achbridge" "$@"
}

try_package() {
	echo '- fresh system'
	mount --make-rprivate /
	mount --bind "$root" "$root"
	mount -t proc proc "$root/proc"
	mount -t tmpfs tmpfs "$root/run"
	mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
	mount --bind /dev "$root/dev"
	mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
	ip link set lo up
	inventory >"$work/before"

	echo '- install'
	cp "$deb" "$newer" "$root/tmp/"
	inside dpkg -i "/tmp/$(basename "$deb")"
	grep -q 'github.com/quic-go/quic-go' "$root/usr/share/doc/achbridge/NOTICES" || fail 'the notices of the linked libraries are missing'
	grep -q 'github.com/nats-io/nats-server' "$root/usr/share/doc/achbridge/NOTICES" || fail 'the notice of the nats-server is missing'
	local service
	for service in achbridge achbridge-hub; do
		inside systemd-analyze verify --man=no /lib/systemd/system/$service.service
		inside systemd-analyze security --offline=true --threshold=20 $service.service | tail -n 1
	done
	inside systemd-analyze verify --man=no /lib/systemd/system/achbridge-achd.socket

	local version
	version=$(dpkg-deb -f "$deb" Version)
	[[ $(inside achbridge version) == "achbridge ${version//\~/-}"[,\ ]* ]] || fail "version: $(inside achbridge version), of package $version"

	echo '- start'
	wait_for 'achbridge key new' inside achbridge run --config /etc/achbridge/achbridge.yaml
	inside achbridge key new
	start
	key_is achbridge:ach:600
	grep -q 'CapEff:.*0000000000000000' "/proc/$daemon/status" || fail "the daemon has capabilities: $(grep -E "Name|Cap|Uid" "/proc/$daemon/status")"

	echo '- mirror a channel, and have one mirrored that the group ach may open'
	inside achbridge channel create plan --frames 8 --size 64
	inside chgrp ach /dev/shm/achshm-plan
	inside chmod 660 /dev/shm/achshm-plan
	robot channel create imu --frames 8 --size 64
	robot run --name krang --key "$root/etc/achbridge/key" --control "$work/robot.sock" --state "$work/robot" \
		--listen 127.0.0.1:9100 --peer 127.0.0.1 --no-discovery --mirror '*/plan' 2>"$work/robot.log" &
	wait_for linked inside achbridge status -v
	inside achbridge mirror krang/imu
	printf one | robot channel put imu
	wait_for one inside achbridge channel cat krang.imu --last --count 1
	printf two | inside achbridge channel put plan
	wait_for two robot channel cat "$(hostname).plan" --last --count 1

	echo '- reload'
	wait_for 'nothing changed' inside $(unit ExecReload)

	try_hub

	echo '- a channel that it may not open is named, with the cure'
	inside achbridge channel create secret --frames 8 --size 64
	inside chmod 600 /dev/shm/achshm-secret
	wait_for 'permission' inside achbridge status -v

	echo '- upgrade'
	echo '# ours' >>"$root/etc/achbridge/achbridge.yaml"
	stop
	inside dpkg -i "/tmp/$(basename "$newer")"
	grep -q '^# ours' "$root/etc/achbridge/achbridge.yaml" || fail 'the upgrade lost the configuration'
	start
	wait_for linked inside achbridge status -v
	inside achbridge mirror krang/imu
	printf three | robot channel put imu
	wait_for three inside achbridge channel cat krang.imu --last --count 1
	stop

	echo '- remove and purge'
	inside dpkg --remove achbridge 2>&1 | grep -v '^dpkg: warning' || true
	[ -f "$root/etc/achbridge/key" ] || fail 'the key was lost at removal'
	inside dpkg --purge achbridge | tee "$work/purge"
	[ ! -e "$root/dev/shm/achshm-krang.imu" ] || fail 'a mirror is left'
	[ -e "$root/dev/shm/achshm-plan" ] || fail "the purge took a channel that is not achbridge's"
	key_is root:root:600
	[ "$(ls -A "$root/etc/achbridge")" = key ] || fail "beside the key the purge left: $(ls -A "$root/etc/achbridge")"

	echo '- install anew: the key that the purge left is used again'
	inside dpkg -i "/tmp/$(basename "$deb")"
	key_is achbridge:ach:600
	start
	wait_for linked inside achbridge status -v
	stop
	inside dpkg --purge achbridge | tee "$work/purge"
	key_is root:root:600
	grep -q 'to remove it: sudo rm -r /etc/achbridge$' "$work/purge" || fail 'the purge does not say how to remove the key'
	grep -q 'to remove it: sudo rm -r /var/lib/achbridge-hub$' "$work/purge" || fail 'the purge does not say how to remove the hub'
	[ "$(inside stat -c %U:%a /var/lib/achbridge-hub/key)" = root:600 ] || fail "the purge leaves the hub's key open"
	inside rm -r /etc/achbridge /var/lib/achbridge-hub
	inventory >"$work/after"
	diff "$work/before" "$work/after" || fail 'the purge left the above'
}

# key_is OWNER:GROUP:MODE
key_is() {
	local is
	is=$(inside stat -c %U:%G:%a /etc/achbridge/key)
	[ "$is" = "$1" ] || fail "key: $is, want $1"
}

# All files but those that dpkg, adduser and the linker's cache write about themselves.
inventory() {
	(cd "$root" && find etc usr var lib -xdev ! -path 'var/lib/dpkg/*' ! -path 'var/log/*' ! -path 'etc/*-' ! -path '*/ld.so.cache' ! -path 'var/cache/*' ! -path 'etc/.pwd.lock' -printf '%p %M\n' | sort)
	ls -d "$root"/run/achbridge "$root"/run/achbridge-hub 2>/dev/null || true
	cut -d: -f1 "$root/etc/passwd" "$root/etc/group" | sort
}

# --- outside -----------------------------------------------------------------

try_arm64() {
	local arm="$work/arm64" sysroot=/usr/aarch64-linux-gnu
	echo '- arm64 under qemu'
	dpkg-deb -x "$1" "$arm"
	install -d "$work/shm"
	achbridge() { ACHBRIDGE_SHM="$work/shm" qemu-aarch64 -L "$sysroot" "$arm/usr/bin/achbridge" "$@"; }
	achbridge version
	achbridge channel create imu --frames 8 --size 64
	wait_for '8 x 64' achbridge channel ls # putting a frame needs robust futexes, which qemu-user lacks
}

# glibc's condition variable is another from 2.41 on. Nothing is compiled there: programs
# made here find that library when they start.
try_trixie() {
	local test=localach/testdata
	echo '- readers wait on glibc 2.41'
	go test -c -o "$work/programs/localach.test" ./localach
	cc -O2 -Wall -pthread -o "$work/programs/peer" $test/peer/channel.c $test/peer/main.c
	cc -O2 -Wall -pthread -o "$work/programs/condvar" $test/condvar.c
	if [ -n "${TRIXIE-}" ]; then
		cp -a "$TRIXIE" "$trixie"
	else
		bash packaging/debian.sh "$trixie" trixie
	fi
	unshare --mount --pid --fork --kill-child --mount-proc bash "$0" trixie </dev/null
}

wake_on_trixie() {
	root=$trixie
	mount --make-rprivate /
	mount -t proc proc "$root/proc"
	mount --rbind /dev "$root/dev"
	mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
	mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
	cp -r "$work/programs" "$root/tmp"
	inside ldd --version | sed -n 1p
	inside env ACHBRIDGE_NO_SKIP=1 ACHBRIDGE_LONG="${ACHBRIDGE_LONG-}" LOCALACH_PROGRAMS=/tmp/programs /tmp/programs/localach.test -test.v \
		-test.run 'Broadcast|KilledWaiting|AllWaitingReaders|StoppedReader|KilledReaders|KilledCReaders|ReadersReadFrames' >"$work/trixie.log" 2>&1 || fail "$(tail -n 30 "$work/trixie.log")"
	grep -c '^--- PASS' "$work/trixie.log" | sed 's/$/ tests passed/'
}

# One version later, and otherwise the same.
repack() {
	dpkg-deb -R "$1" "$work/repack"
	sed -i 's/^Version: .*/&.1/' "$work/repack/DEBIAN/control"
	dpkg-deb --root-owner-group -Znone -b "$work/repack" "$2" >/dev/null
}

case ${1-} in
inside)
	try_package
	exit
	;;
trixie)
	wake_on_trixie
	exit
	;;
esac

[ "$(id -u)" = 0 ] || fail 'needs root'
work=$(mktemp -d)
trap 'rm -rf --one-file-system "$work"' EXIT
root=$work/debian
arch=$(dpkg --print-architecture)
deb=$(ls -t dist/achbridge_*_"$arch".deb | head -n 1)
newer=$work/newer.deb
repack "$deb" "$newer"
dpkg-deb -x "$deb" "$work/own"
cp "$work/own/usr/bin/achbridge" "$work/achbridge"
if [ -n "${DEBIAN-}" ]; then
	cp -a "$DEBIAN" "$root"
else
	bash packaging/debian.sh "$root"
fi
trixie=$work/trixie
export work root deb newer trixie
mkdir "$work/programs"
unshare --mount --net --pid --fork --kill-child --mount-proc bash "$0" inside </dev/null
for arm in $(ls -t dist/achbridge_*_arm64.deb | head -n 1); do try_arm64 "$arm"; done
try_trixie
echo ok
