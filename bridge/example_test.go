package bridge_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"sync"

	"achbridge/bridge"
	"achbridge/bridge/rule"
	"achbridge/bridge/transport"
	"achbridge/bridge/trust"
	"achbridge/localach"
)

// The node mirrors channel imu of host krang, which is not linked yet.
func ExampleNew() {
	dir, err := os.MkdirTemp("", "channels-")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	watcher, err := localach.NewWatcher()
	if err != nil {
		fmt.Println(err)
		return
	}
	socket, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	id := trust.NodeID{1}
	endpoint, err := transport.Listen(socket, transport.Config{Key: trust.NewKey(), Node: id, Host: "pc"})
	if err != nil {
		fmt.Println(err)
		return
	}
	node, err := bridge.New(bridge.Config{
		Host: "pc", Node: id, Dir: localach.Dir(dir), Source: bridge.ShmSource(localach.Dir(dir), watcher), Endpoint: endpoint,
		Mirrors: rule.Mirrors{{Host: "krang", Channel: "imu"}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { watcher.Run(ctx) })
	running.Go(func() { node.Run(ctx) })
	for _, m := range node.Status().Mirrors {
		fmt.Printf("%s is %s: %s\n", m.Name, m.State, m.Reason)
	}
	stop()
	running.Wait()
	// Output: krang.imu is waiting: no link to krang
}
