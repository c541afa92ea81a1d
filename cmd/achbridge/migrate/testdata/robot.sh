#!/bin/bash
# Start script of a robot, with variables, lists and Ach's former flags.
ROBOT=192.168.1.51
PULL="achd pull -d"
PUSH="achd -d push"
CHANNELS="state cmd"
GREETING="welcome to $ROBOT"
sudo rm -f /dev/shm/ach*
ach -1 -C state -m 20 -n 256 -o 0666
ach -C cmd -t -n 64
ach -C kmap -k
ach mk -a -p 8076 gains -m 3 -n 1024
ach -U stale
ach chmod 666 gains
ach -D state
ach -F state
ach list
$PULL $ROBOT imu
$PULL -t udp ${ROBOT} joints
$PULL -p 9000 fd00::7 lidar
$PUSH $ROBOT cmd
achd pull localhost loop
achd pull -p 9000 localhost tunnel
for c in left right; do
	ach -C $c-arm -n 64 -m 10
	achd pull $ROBOT $c-arm
done
for c in $CHANNELS; do achd push $ROBOT $c & done
for c in $(cat list); do achd push $ROBOT $c & done
send() { achd push atlas "$1" -z "from-$1"; }
send goal
send plan
send $2
: <<'COMMENT'
achd pull robot imu-comment
COMMENT
achcop -P /run/x.pid -d -- achd pull $ROBOT cop
achcop -P /run/y.pid -d -- ./driver
achlog imu state
achcat -p goal
achpipe pull 192.168.1.51 depth
HOST=$1
achd pull $HOST late
OTHER=${OTHER:-atlas}
achd pull $OTHER preset
N=1
N=2
achd pull robot$N twice
read ROBOT2
achd pull $ROBOT2 asked
A="$B"
B="$A"
achd pull $A circle
xterm -e ach -C shown
