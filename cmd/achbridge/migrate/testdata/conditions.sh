#!/bin/sh
case "$1" in
start)
	achd pull -d -r krang imu
	;;
stop)
	killall achd
	;;
esac

if ping -c 1 krang; then
	achd pull -d krang joints
elif [ -n "$FALLBACK" ]; then
	achd pull -d atlas joints
fi

test -e /dev/shm/achshm-goal || ach mk goal
which achd && achd push -d krang goal
ach mk plan || true
achd push -d krang plan && echo pushing
until achd pull -d krang torque; do sleep 1; done
while ping -c1 krang; do achd pull krang lidar; done
ids=$(ach search imu)
! achd pull -d krang map
command -v achd >/dev/null || exit 1
