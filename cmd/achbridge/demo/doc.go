// Package demo runs a robot and a PC on one machine: two daemons joined over loopback, three channels, and readers that
// measure the age of the mirrors independently of achbridge.
//
//	report, err := demo.Run(ctx, demo.Config{Shm: localach.Shm, Length: 10 * time.Second, Over: via.QUIC, Out: os.Stdout})
//	report.Show(os.Stdout)
//	err = report.Fault() // nil if the mirrors were as they should be, or the machine was too busy to judge
//
// It needs no root, no key and no second host, and removes everything that it created. home.go keeps its files, daemons.go
// starts the daemons, meter.go writes and reads frames, and report.go judges the result.
package demo
