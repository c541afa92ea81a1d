#!/usr/bin/env bash
# Try the package in dist/ on a computer of its own, which qemu emulates: a Debian
# system with its kernel and systemd, whose clock has no battery. There the service
# goes through all that systemctl can do to it, the wall clock is stepped by years
# under running daemons, the computer is suspended, and channels of a kernel module are
# mirrored (testnet/kmod). This machine's clock is not touched.
#
#   bash packaging/build.sh amd64 && bash packaging/vm.sh
#
# As root, with Go, gcc, and debootstrap, e2fsprogs and qemu-system-x86 of Debian. The kernel
# and its headers are fetched and not installed. DEBIAN=DIR takes the system from there, as
# packaging/debian.sh makes it. With TRY='service', TRY='hub', TRY='clock', TRY='kernel' or TRY='suspend' it does only that;
# ACHBRIDGE_LONG=1 removes 1000 channels of the kernel, and kills 100 daemons.
set -euo pipefail
cd "$(dirname "$0")/.."

fail() {
	echo "FAILED: $*" >&2
	exit 1
}

# wait_for TEXT COMMAND...: until the command prints TEXT, some 60 s: all is slow here.
wait_for() {
	local text=$1 out end=$((SECONDS + 60))
	shift
	while [ $SECONDS -lt $end ]; do
		out=$("$@" 2>&1) || true
		[[ $out != *"$text"* ]] || return 0
		sleep 0.2
	done
	fail "never \"$text\" from: $*, but: $out"
}

# --- inside ------------------------------------------------------------------

# is PROPERTY VALUE: of the service.
is() { [ "$(systemctl show --value -p "$1" achbridge)" = "$2" ] || fail "$1 of the service: got $(systemctl show --value -p "$1" achbridge), want $2"; }

# A second host on this computer: its own network, shared memory and daemon.
start_krang() {
	ip netns add krang
	ip link add lan type veth peer name lan netns krang
	ip addr add 10.8.0.1/24 dev lan
	ip -n krang addr add 10.8.0.2/24 dev lan
	ip link set lan up
	ip -n krang link set lan up
	ip -n krang link set lo up
	ip netns exec krang unshare --mount sh -c 'mount -t tmpfs krang /dev/shm && exec sleep infinity' &
	place=$!
	wait_for 'krang /dev/shm' cat "/proc/$place/mounts"
	krang /try/achbridge publish imu:50:64 joints:20:3000 2>/run/publisher.log &
	krang achbridge run --name krang --key /etc/achbridge/key --control /run/krang.sock --state /run/krang --mirror '*/plan' 2>/run/krang.log &
}

krang() { nsenter --target "$place" --mount --net "$@"; }

# follows WHAT...: the mirrors get frames that are put from now on, and are young.
follows() {
	local mirror seq
	for mirror in krang.imu krang.joints; do
		wait_for "$mirror" achbridge channel ls
		seq=$(newest "$mirror")
		until [ "$(newest "$mirror")" -gt "$((seq + 10))" ]; do
			[ $SECONDS -lt "$((begin + 60))" ] || fail "$mirror does not follow, $*: $(achbridge status -v 2>&1)"
			sleep 0.2
		done
	done
	wait_for 'ok' sh -c 'achbridge status --check && echo ok'
}

newest() { achbridge channel info --json "$1" | sed -nE 's/^  "seq": ([0-9]+),/\1/p'; }

try_service() {
	local begin pid
	echo "- Debian $(cat /etc/debian_version), Linux $(uname -r), $(systemctl --version | head -n 1), $(date +%F)"

	echo '- install'
	dpkg -i /try/achbridge.deb >/run/dpkg 2>&1 || fail "$(cat /run/dpkg)"
	grep -q 'systemctl enable --now achbridge' /run/dpkg || fail "the package does not say what is next: $(cat /run/dpkg)"
	is UnitFileState disabled
	is ActiveState inactive

	echo '- without a key it fails, says why, and is not started again and again'
	! systemctl start achbridge 2>/dev/null || fail 'it started without a key'
	wait_for 'achbridge key new' systemctl status achbridge
	wait_for 'achbridge key new' journalctl -u achbridge
	is ExecMainStatus 3
	sleep 3 # RestartSec is 2 s
	is NRestarts 0
	is ActiveState failed

	echo '- start, enable'
	achbridge key new >/dev/null
	systemctl enable --now achbridge 2>/dev/null
	is ActiveState active
	wait_for "pid $(systemctl show --value -p MainPID achbridge)" achbridge status -v

	echo '- mirrors, by a changed file and a reload'
	start_krang
	echo "mirror: ['krang/*']" >>/etc/achbridge/achbridge.yaml
	begin=$SECONDS
	systemctl reload achbridge
	follows 'after the reload'
	pid=$(systemctl show --value -p MainPID achbridge)
	wait_for imu achbridge ls

	echo '- and is mirrored: a channel of mode 0660 in group ach'
	achbridge channel create plan --frames 8 --size 64
	chgrp ach /dev/shm/achshm-plan
	chmod 660 /dev/shm/achshm-plan
	printf go | achbridge channel put plan
	wait_for go krang achbridge channel cat "$(hostname).plan" --last --count 1

	echo '- a reload of a wrong file fails, says where, and changes nothing'
	cp /etc/achbridge/achbridge.yaml /run/good.yaml
	echo 'mirrors: [x]' >>/etc/achbridge/achbridge.yaml
	! systemctl reload achbridge 2>/dev/null || fail 'the reload took a wrong file'
	wait_for 'mirrors' journalctl -u achbridge -n 20
	is MainPID "$pid"
	begin=$SECONDS
	follows 'after a reload that failed'

	echo '- started with the wrong file it fails, says where'
	systemctl stop achbridge
	! systemctl start achbridge 2>/dev/null || fail 'it started with a wrong file'
	wait_for 'mirrors' systemctl status achbridge
	is ExecMainStatus 2
	cp /run/good.yaml /etc/achbridge/achbridge.yaml
	systemctl start achbridge

	echo '- killed, it is started again'
	begin=$SECONDS
	systemctl kill -s KILL achbridge
	wait_for 1 systemctl show --value -p NRestarts achbridge
	wait_for active systemctl is-active achbridge
	follows 'after a kill'

	echo '- stopped, so that it does not answer its watchdog, it is started again'
	mkdir -p /run/systemd/system/achbridge.service.d
	printf '[Service]\nWatchdogSec=8s\n' >/run/systemd/system/achbridge.service.d/try.conf
	systemctl daemon-reload
	systemctl restart achbridge
	systemctl kill -s STOP achbridge
	# Many lines: the daemon then prints the stacks of all its goroutines.
	wait_for 'Watchdog timeout' journalctl -u achbridge -n 20000
	begin=$SECONDS
	wait_for active systemctl is-active achbridge
	follows 'after the watchdog'
	rm -r /run/systemd/system/achbridge.service.d
	systemctl daemon-reload

	echo '- doctor finds nothing wrong with the service'
	achbridge doctor >/run/doctor || true
	! grep -E '^failure' /run/doctor || fail 'the doctor, above'

	echo '- stop'
	begin=$(date +%s%N)
	systemctl stop achbridge
	begin=$((($(date +%s%N) - begin) / 1000000))
	is Result success
	[ $begin -lt 5000 ] || fail "it took $begin ms to leave"
	[ -e /dev/shm/achshm-krang.imu ] || fail 'the mirrors went with the daemon'

	echo '- purge under systemd, while it runs'
	systemctl start achbridge
	dpkg --purge achbridge >/run/dpkg 2>&1 || fail "$(cat /run/dpkg)"
	! systemctl is-active --quiet achbridge || fail 'the purge left it running'
	[ ! -e /etc/systemd/system/multi-user.target.wants/achbridge.service ] || fail 'the purge left it enabled'
}

# The hub's service, on a system where nothing else of ours runs.
try_hub() {
	echo '- a hub: without one its service fails and says why; with one it works'
	dpkg -i /try/achbridge.deb >/run/dpkg 2>&1 || fail "$(cat /run/dpkg)"
	! systemctl start achbridge-hub 2>/dev/null || fail 'the service of the hub started without a hub'
	wait_for 'achbridge hub init' journalctl -u achbridge-hub
	achbridge hub init localhost >/dev/null
	systemctl start achbridge-hub
	wait_for running achbridge hub check
	achbridge hub add krang -o /run/hub.creds >/dev/null
	wait_for 'host added' journalctl -u achbridge-hub
	systemctl kill -s KILL achbridge-hub
	wait_for 1 systemctl show --value -p NRestarts achbridge-hub
	wait_for running achbridge hub check
	systemctl stop achbridge-hub
	[ "$(systemctl show --value -p Result achbridge-hub)" = success ] || fail "the hub's service ended: $(systemctl show --value -p Result achbridge-hub)"
	dpkg --purge achbridge >/run/dpkg 2>&1 || fail "$(cat /run/dpkg)"
	[ "$(stat -c %U:%a /var/lib/achbridge-hub/key)" = root:600 ] || fail "the purge leaves the hub's key as $(stat -c %U:%a /var/lib/achbridge-hub/key)"
	rm -r /var/lib/achbridge-hub
}

try_clock() {
	echo '- step the wall clock by years under daemons'
	cd /try
	ACHBRIDGE_CLOCK=step ACHBRIDGE_PROGRAMS=/try ./testnet.test -test.v -test.parallel 1 \
		-test.run '^(TestMirrorsFollowWhileTheWallClockIsStepped|TestHostsWithCertificatesLinkOnceTheirClockIsSet)$' 2>&1 | tee /run/clock
	! grep -e '--- SKIP' /run/clock || fail 'skipped'
}

try_kernel() {
	echo '- channels in the kernel'
	insmod /try/achtest.ko
	cd /try
	ACHBRIDGE_PROGRAMS=/try ./kernel.test -test.v -test.timeout 30m -test.run '.*/module' 2>&1 | tee /run/kernel
	ACHBRIDGE_PROGRAMS=/try ./testnet.test -test.v -test.timeout 30m -test.parallel 1 -test.run '^TestKernel' 2>&1 | tee -a /run/kernel
	! grep -e '--- SKIP' /run/kernel || fail 'skipped'
	rmmod achtest
	! dmesg | grep -E 'BUG:|Oops|WARNING:|list_del' || fail 'the kernel complains, above'
}

try_suspend() {
	echo '- suspend the computer while a command waits'
	cd /try
	ACHBRIDGE_SUSPEND=1 ACHBRIDGE_PROGRAMS=/try ./testnet.test -test.v -test.run '^TestNoOldCommandIsPutAfterSuspend$' 2>&1 | tee /run/suspend
	! grep -e '--- SKIP' /run/suspend || fail 'skipped'
}

if [ "${1-}" = inside ]; then
	shift
	for what in "$@"; do "try_$what"; done
	echo 'all is well'
	exit
fi

# --- outside -----------------------------------------------------------------

# The kernel of Debian's clouds has what mounts the root built in: NVMe, ext4.
kernel() {
	local package
	package=$(apt-cache depends linux-image-cloud-amd64 | sed -nE 's/.*Depends: (linux-image-[0-9].*)/\1/p' | head -n 1)
	[ -n "$package" ] || fail 'no kernel: apt-get update'
	(cd "$work" && apt-get download -q "$package" 2>&1 && dpkg -x "$package"_*.deb linux) >"$work/kernel.log" || fail "kernel: $(cat "$work/kernel.log")"
	mv "$work"/linux/boot/vmlinuz-* "$work/vmlinuz"
	mv "$work/linux/lib/modules" "$root/usr/lib/"
	chroot "$root" depmod "${package#linux-image-}"
	[[ " $TRY " != *' kernel '* ]] || module "${package#linux-image-}"
}

# module VERSION: builds testnet/kmod for that kernel, into /try.
module() {
	local package=linux-headers-$1 headers=$work/headers/usr/src/linux-headers-$1
	(
		cd "$work"
		apt-get download -q "$package" $(apt-cache depends "$package" | sed -nE 's/.*Depends: (linux-(headers|kbuild)-.*)/\1/p')
		for package in linux-{headers,kbuild}-*.deb; do dpkg -x "$package" headers; done
		sed -i "s|/usr/src/|$work/headers&|" "$headers/Makefile"
	) >"$work/module.log" 2>&1 || fail "kernel headers: $(cat "$work/module.log")"
	cp -r testnet/kmod "$work/kmod"
	make -C "$headers" M="$work/kmod" modules >"$work/module.log" 2>&1 || fail "module: $(cat "$work/module.log")"
	install -D "$work/kmod/achtest.ko" "$root/try/achtest.ko"
}

# What is tried, as a service, whose words come by the second serial port.
prepare() {
	install -d "$root/try"
	cp "$deb" "$root/try/achbridge.deb"
	go build -o "$root/try/" ./cmd/achbridge
	go test -c -o "$root/try/testnet.test" ./testnet
	go test -c -o "$root/try/kernel.test" ./localach/kernel
	cp packaging/vm.sh "$root/try/"
	echo computer >"$root/etc/hostname"
	rm -rf "$root"/var/cache/apt/* "$root"/var/lib/apt/lists/* "$root"/usr/share/{doc,locale,man}
	cat >"$root/etc/systemd/system/try.service" <<-EOF
		[Unit]
		FailureAction=poweroff-force
		SuccessAction=poweroff
		[Service]
		ExecStart=/bin/bash /try/vm.sh inside $TRY
		Environment=HOME=/root ACHBRIDGE_LONG=${ACHBRIDGE_LONG-}
		StandardOutput=tty
		StandardError=tty
		TTYPath=/dev/ttyS1
	EOF
	install -d "$root/etc/systemd/system/multi-user.target.wants"
	ln -s ../try.service "$root/etc/systemd/system/multi-user.target.wants/"
}

[ "$(id -u)" = 0 ] || fail 'needs root'
TRY=${TRY-service hub clock kernel suspend}
work=$(mktemp -d)
trap 'rm -rf --one-file-system "$work"' EXIT
root=$work/debian
deb=$(ls -t dist/achbridge_*_amd64.deb | head -n 1)
if [ -n "${DEBIAN-}" ]; then
	cp -a "$DEBIAN" "$root"
else
	bash packaging/debian.sh "$root"
fi
kernel
prepare
truncate -s 1500M "$work/disk"
mkfs.ext4 -q -O ^has_journal -d "$root" "$work/disk"
# Without timers: in thirty years all of them are due at once.
begin=$SECONDS
qemu-system-x86_64 -accel tcg,thread=multi -cpu max -smp 2 -m 1G -nodefaults -display none -no-reboot \
	-rtc base=1970-01-01T00:01:00 -serial "file:$work/console" -serial "file:$work/said" \
	-drive "file=$work/disk,format=raw,if=none,id=disk,cache=unsafe" -device nvme,drive=disk,serial=1 \
	-kernel "$work/vmlinuz" -append 'console=ttyS0 root=/dev/nvme0n1 rw panic=-1 systemd.getty_auto=0 systemd.mask=timers.target' &
computer=$!
trap 'kill "$computer" 2>/dev/null || true; rm -rf --one-file-system "$work"' EXIT
touch "$work/said"
tail --pid="$computer" -f "$work/said" | sed -u 's/\r$//'
wait "$computer" || fail 'qemu'
grep -q '^all is well' "$work/said" || { cat "$work/console" && fail 'above: what the computer has written on its console'; }
echo "ok, $((SECONDS - begin)) s from power on to power off"
