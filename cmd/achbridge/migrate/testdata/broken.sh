achd pull -d krang imu
if [ -e x ]; then
	achd pull -d krang joints
fi )
# achd pull -d krang commented
achd pull -d krang torque
