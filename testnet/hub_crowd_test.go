package testnet_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"achbridge/bridge/hub"
)

// asCrowd in its environment makes this test binary a crowd: readers at a hub, each with credentials
// DIR/crowdN.creds, that pull channels c0 to c9 of robot. It is DIR:FROM:TO.
const asCrowd = "ACHBRIDGE_TEST_CROWD"

// crowdChannels is how many channels each of them reads.
const crowdChannels = 10

// crowd adds readers until there are so many.
func (f *fleet) crowd(from, to int) {
	f.t.Helper()
	if from == to {
		return
	}
	for i := from; i < to; i++ {
		f.must("hub", "hub", "add", crowdName(i), "--dir", f.hubDir(), "--out", f.credentials(crowdName(i)))
	}
	cmd := f.lab.Command("crowd", os.Args[0])
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s:%d:%d", asCrowd, f.dir, from, to))
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		f.t.Fatal(err)
	}
}

func crowdName(i int) string { return fmt.Sprintf("crowd%d", i) }

// pullAll is a crowd until the process is killed.
func pullAll(what string) int {
	words := strings.Split(what, ":")
	from, _ := strconv.Atoi(words[1])
	to, _ := strconv.Atoi(words[2])
	var work sync.WaitGroup
	for i := from; i < to; i++ {
		c, err := hub.ReadCredentials(filepath.Join(words[0], crowdName(i)+".creds"))
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		client, err := hub.New(hub.Config{Credentials: c})
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		work.Go(func() { _ = client.Run(context.Background()) })
		for channel := range crowdChannels {
			ch := client.Channel("robot", fmt.Sprintf("c%d", channel))
			work.Go(func() {
				for {
					if _, err := ch.Next(context.Background()); err != nil {
						return
					}
				}
			})
		}
	}
	work.Wait()
	return 0
}
