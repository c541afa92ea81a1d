package localach_test

import (
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	"achbridge/localach"
)

// example creates a channel in a temporary directory. Programs use localach.Shm.
func example() (*localach.Channel, func()) {
	dir, err := os.MkdirTemp("", "ach")
	if err != nil {
		log.Fatal(err)
	}
	c, err := localach.Dir(dir).Create("joints", localach.CreateConfig{
		Geometry: localach.Geometry{FrameCount: 16, FrameSize: 64},
	})
	if err != nil {
		log.Fatal(err)
	}
	return c, func() {
		c.Close()
		os.RemoveAll(dir)
	}
}

// A controller reads the newest sample, however many older ones it has not read.
func ExampleReader() {
	channel, remove := example()
	defer remove()
	writer, reader := channel.Writer(), channel.Reader()
	defer writer.Close()
	for _, sample := range []string{"first", "second", "third"} {
		if _, err := writer.Put([]byte(sample)); err != nil {
			log.Fatal(err)
		}
	}
	buf := make([]byte, 64)
	n, err := reader.Next(buf, time.Second)
	fmt.Printf("%s: number %d, %d missed, %v\n", buf[:n], reader.Seq(), reader.Missed(), err)
	_, err = reader.Next(buf, 0)
	fmt.Println("again:", err)
	// Output:
	// third: number 3, 2 missed, <nil>
	// again: i/o timeout
}

// A logger reads all frames in order, as long as they are in the ring.
func ExampleReader_NextOldest() {
	channel, remove := example()
	defer remove()
	writer, reader := channel.Writer(), channel.Reader()
	defer writer.Close()
	for _, sample := range []string{"first", "second"} {
		if _, err := writer.Put([]byte(sample)); err != nil {
			log.Fatal(err)
		}
	}
	buf := make([]byte, 64)
	for {
		n, err := reader.NextOldest(buf, 0)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			break // all frames were read
		} else if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s\n", buf[:n])
	}
	// Output:
	// first
	// second
}

// A writer never waits for its readers. It overwrites the oldest frames.
func ExampleWriter() {
	channel, remove := example()
	defer remove()
	writer := channel.Writer()
	defer writer.Close()
	for range 100 {
		if _, err := writer.Put(make([]byte, 24)); err != nil {
			log.Fatal(err)
		}
	}
	fmt.Println("put:", channel.LastSeq())
	fmt.Println("kept:", channel.Geometry().FrameCount)
	// Output:
	// put: 100
	// kept: 16
}
