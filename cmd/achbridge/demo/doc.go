// Package demo is a robot and a PC on this machine alone: two nodes over loopback, three
// channels, and readers that know nothing of the bridge and measure how old its mirrors are.
//
//	report, err := demo.Run(ctx, demo.Config{Length: 10 * time.Second, Over: via.QUIC, Out: os.Stdout})
//	report.Show(os.Stdout)
//	ok := report.OK // every mirror got nine frames in ten, and none went back
//
// It needs no root, no key and no second host, and removes everything that it made.
package demo
