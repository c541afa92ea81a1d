#!/bin/sh
# Bring-up of the arm: channels, controller, what the PC sends.

set -e
cd /opt/arm
modprobe can_raw
ip link set can0 up type can bitrate 1000000

ach mk -1 -m 10 -n 512 -o 666 joints
ach mk -1 -m 10 -n 512 -o 666 torque
ach -1 -n 128 mk goal && ach chmod 660 goal
ach mk camera -m 4 -n 2764800 -t

achd -d -r push planner joints
achd push -d -r -u 20000 planner camera
achd -rd -z arm-torque push planner torque
achd pull -d planner goal

exec ./controller --rate 500
