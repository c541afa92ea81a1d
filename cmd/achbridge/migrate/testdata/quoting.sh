#!/bin/sh
"achd" 'pull' -r "krang" 'imu'
achd pu\
ll kra"ng" joi'nts'
ach\d pull -z"remote name" krang local
achd push "krang" go'a'l -z\goal2
achd pull krang 'two words'
achd pull krang imu*
achd pull krang "../etc"
achd pull -x krang imu
achd pull krang a b
achd fetch krang imu
achd pull -u often krang slow
achd pull -u 2000000000 krang slower
achd pull -u 0 krang fast
achd -V
achd pull localhost tunnelled
ach mk 'a b'
ach mk -m 16 -n 212 odd
ach mk -m many imu
ach mk -o 999 imu2
ach mk -k kernel
