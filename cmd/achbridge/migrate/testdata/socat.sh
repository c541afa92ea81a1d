socat TCP-LISTEN:8076,fork,reuseaddr EXEC:"achd serve",nofork &
achd pull krang imu
achd push krang imu
achd pull atlas imu
achd pull krang imu -z imu -t udp
achd pull krang imu2 -z imu
achd push krang goal
achd push krang goal -z goal2
