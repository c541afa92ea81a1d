#!/bin/bash
HOST=${1:-krang}
ACHD=/usr/local/bin/achd
OPTS="-r -d"

pull() {
	achd pull -r -d $HOST "$1"
}

fixed() {
	achd pull -d krang imu
}

never() {
	achd pull -d krang secret
}

function make_channels {
	for c in imu joints; do
		ach mk -1 "$c" -n 256
	done
	ach mk -1 state
}

make_channels
fixed
fixed
pull joints
$ACHD pull krang camera
achd pull $OPTS krang torque
achd pull -d `cat /etc/robot` odometry
port=$((8000 + 76)); achd push -p $port krang goal

# What is called achd here calls achd.
achd() {
	command achd "$@" || logger "achd ended"
}
trap 'killall achd' EXIT
