// Package demo runs a robot and a PC on one machine: two nodes over loopback, three
// channels, and readers that measure the age of mirrors without help of the bridge.
//
//	report, err := demo.Run(ctx, demo.Config{Length: 10 * time.Second, Over: via.QUIC, Out: os.Stdout})
//	report.Show(os.Stdout)
//	ok := report.OK // every mirror got nine frames in ten, and none went back
//
// It needs no root, no key and no second host, and removes everything that it created.
package demo
