#!/bin/sh
while true; do achd pull krang imu; sleep 1; done &
while :
do
	achd push krang goal
	sleep 0.5
done &
for try in 1 2 3; do achd pull -d krang joints; done
for ch in lidar camera; do achd pull -d krang $ch; done
(
	until false; do achd -u 1000 pull krang state; done
) &
wait
