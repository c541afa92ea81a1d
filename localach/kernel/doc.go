// Package kernel reads channels of the kernel's Ach module (Ach in the kernel, 2016), for code that reads channels in shared
// memory.
//
//	channels := kernel.New(localach.Shm)
//	err := channels.Watch(ctx, func(e localach.Event) { … }) // reports channels that appear and vanish
//	channel, err := channels.TryOpen("imu")                  // a private localach.Channel
//	defer channel.Close()
//
// Each channel is a device, /dev/ach-NAME. A goroutine waits for the device, reads its newest frame and puts the frame into a
// private channel. The private channel counts the frames that were read, since a read does not return the frame's number.
//
// # The module's faults
//
// The module can corrupt a list of the kernel and stop the machine: when a channel is removed while a descriptor is open, a
// channel is created, and then the old descriptor is closed. So Watch closes the descriptors of a device as soon as inotify
// reports that its node is gone, and TryOpen opens nothing while Watch does not run. A program that creates a channel without a
// pause after it removed one can still be faster than that.
//
// Each ioctl writes a line to the kernel's log. So there are two at opening, and then one every statusEvery.
//
//	channels.go  all devices: inotify, which kind of channel libach opens
//	device.go    one device: its descriptors, and the goroutine that reads frames
//	ioctl.go     system calls
package kernel
