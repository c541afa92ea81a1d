package discovery_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"achbridge/discovery"
)

// Browse searches once. This one sends no query, since it searches only for a listed peer.
func ExampleBrowse() {
	robot, err := discovery.ParseStatic("127.0.0.1:8076")
	if err != nil {
		log.Fatal(err)
	}
	peers, err := discovery.Browse(context.Background(), discovery.Config{
		StaticOnly: true,
		Static:     []discovery.Static{robot},
	}, time.Second)
	if err != nil {
		log.Fatal(err)
	}
	for _, p := range peers {
		fmt.Println(p.Host, p.Addrs, p.Source)
	}
	// Output:
	// 127.0.0.1 [127.0.0.1:8076] static
}

// Run calls its function with the whole table each time the table changes.
func ExampleBrowser() {
	robot, err := discovery.ParseStatic("127.0.0.1:8076")
	if err != nil {
		log.Fatal(err)
	}
	b, err := discovery.NewBrowser(discovery.Config{StaticOnly: true, Static: []discovery.Static{robot}})
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	err = b.Run(ctx, func(peers []discovery.Peer) {
		for _, p := range peers {
			if len(p.Addrs) > 0 {
				fmt.Println("dial", p.Addrs[0])
				cancel()
			}
		}
	})
	fmt.Println(err)
	// Output:
	// dial 127.0.0.1:8076
	// <nil>
}
