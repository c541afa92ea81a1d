#!/bin/bash
sudo bash <<'ROOT'
ach mk -1 -o 666 imu
achd pull -d krang imu
ROOT
ssh krang <<EOS
achd push -d pc imu
EOS
ssh krang achd push -d pc joints
crontab - <<EOS
@reboot achd pull -d krang joints
EOS
cat > /etc/xinetd.d/achd <<EOS
service achd
{
	port        = 8076
	socket_type = stream
	wait        = no
	user        = nobody
	server      = /usr/local/bin/achd
	server_args = serve
	only_from   = 10.0.0.0/24 10.0.1.7
}
EOS
echo "8076 stream tcp nowait nobody /usr/local/bin/achd achd serve" >> /etc/inetd.conf
cat <<EOS
Now achd pull runs, see $LOG.
EOS
