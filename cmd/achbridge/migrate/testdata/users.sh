#!/bin/bash
sudo ach mk imu
su -c 'achd pull -d krang imu' robot
su - robot -c "achd -d push krang goal; ach mk -n 64 goal"
sudo -u robot sh -c "sleep 1; exec achd -r -d pull krang joints"
bash -lc "achd pull krang $CHANNEL"
setsid nice -n -5 achd pull krang torque &
chrt -f 50 taskset -c 1 achd pull krang force &
env ACHLOG=1 timeout 3600 achd pull krang odometry
LD_LIBRARY_PATH=/opt/ach/lib stdbuf -oL achd pull krang map
achcop -d -r -P /run/cop -p /run/achd -- achd pull krang pose
screen -dmS bridge achd pull krang temperature
eval "achd pull -d krang wind"
tmux new-session -d 'achd pull krang humidity'
$SUDO achd pull -d krang pressure
