// Package kernel reads channels of the kernel's Ach module (Ach in the kernel, 2016), for code that reads channels in shared
// memory, and copies mirrors into such channels.
//
//	channels := kernel.New(localach.Shm)
//	err := channels.Watch(ctx, func(e localach.Event) { … }) // reports channels that appear and vanish
//	channel, err := channels.TryOpen("imu")                  // a private localach.Channel
//	defer channel.Close()
//
//	mirror := channels.Copy(file, false)                     // makes /dev/ach-NAME, and writes the frames of file into it
//	defer mirror.Close()
//	mirror.Wake()                                            // file has another frame
//
// Each channel is a device, /dev/ach-NAME. A goroutine waits for the device, reads its newest frame and puts the frame into a
// private channel. The private channel counts the frames that were read, since a read does not return the frame's number.
//
// # Copies
//
// A kernel channel holds neither its maker nor the frame's number at the origin. So a mirror stays a file in shared memory, with
// all that package mirror does for it, and a goroutine copies its frames. Only that goroutine waits for the module. A record, a
// file next to those of the channels, marks kernel channels as ours and makes sure that no frame is written twice.
//
// # The module's faults
//
// The module can corrupt a list of the kernel and stop the machine: when a channel is removed while a descriptor is open, a
// channel is created, and then the old descriptor is closed. So Watch closes the descriptors of a device as soon as inotify
// reports that its node is gone, and TryOpen opens nothing while Watch does not run. A program that creates a channel without a
// pause after it removed one can still be faster than that.
//
// For the same reason Remove removes no channel that another process may have open, and Copy makes none while another process has
// a removed one open, as far as this process can see.
//
// A creation that fails for lack of memory makes the next one crash the kernel. So channels of Copy are small, and after a
// creation that failed there is no other one.
//
// Each ioctl writes a line to the kernel's log. So there are two at opening, and then one every statusEvery.
//
//	channels.go  all devices: inotify, which kind of channel libach opens
//	device.go    one device: its descriptors
//	reader.go    the goroutine that reads the frames of a device
//	copy.go      the goroutine that copies frames of a mirror; writer.go, the device and its record
//	control.go   makes and removes channels; record.go, which are ours
//	ioctl.go     system calls
package kernel
