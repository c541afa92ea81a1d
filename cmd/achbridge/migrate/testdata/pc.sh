#!/bin/bash
# On the laptop: what it needs of the robot.
achd pull -r krang imu > /dev/null 2>&1 &
achd -r -t udp pull krang joints & achd -l pull krang state &
nohup achd pull -r krang.local \
    camera \
    -u 66667 >/tmp/camera.log 2>&1 &
sudo -u ach nohup /usr/local/bin/achd pull -r -z imu krang krang.imu &
achd pull -r 10.0.0.7 lidar &
achd pull -r fts &
achd pull -r krang imu &
achd pull -r krang -p 8090 "battery" 2>>'/var/log/ach d.log' &
sleep 2
ach dump imu
./viewer
kill %1
pkill achd
