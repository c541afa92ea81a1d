package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"achbridge/localach"
)

// scenario is a load and a link.
type scenario struct {
	name, about string
	link        string // in the text form of testnet.Params
	options     string // options of achbridge's mirrors
	load        []group
	cut         time.Duration // how long the cable is unplugged in the middle; 0 means never
	length      time.Duration
}

// scenarios has the predefined scenarios. The delay of a LAN is that of a switch and a
// cable, without the kernel's processing time.
var scenarios = []scenario{
	{name: "lan-1k", about: "64 B at 1 kHz on a LAN with room", link: "delay=50us", load: load("imu:1000:64")},
	{name: "lan-200", about: "64 B at 200 Hz on a LAN with room", link: "delay=50us", load: load("imu:200:64")},
	{name: "humanoid", about: "9 channels of 3000 B at 200 Hz on a LAN with room", link: "delay=50us", load: load("joint:200:3000*9")},
	{name: "image", about: "1 MB at 30 Hz on a LAN of 1 Gbit/s", link: "delay=50us,rate=1gbit", load: load("camera:30:1000000")},
	{name: "loss", about: "64 B at 1 kHz, 5 % of the packets lost", link: "delay=5ms,loss=5%", load: load("imu:1000:64")},
	{name: "thin", about: "1 kB at 200 Hz over 1 Mbit/s, more than fits", link: "delay=5ms,rate=1mbit,queue=64KiB", load: load("state:200:1000")},
	{name: "cut", about: "64 B at 1 kHz, the cable unplugged for 3 s", link: "delay=5ms", load: load("imu:1000:64"), cut: 3 * time.Second},
}

// group is a number of channels of one kind.
type group struct {
	Name  string
	Rate  float64 // frames a second
	Size  int     // bytes
	Count int
}

// channels returns the names of the group's channels.
func (g group) channels() (names []string) {
	if g.Count == 1 {
		return []string{g.Name}
	}
	for i := range g.Count {
		names = append(names, g.Name+strconv.Itoa(i))
	}
	return names
}

func (g group) String() string {
	text := fmt.Sprintf("%s:%g:%d", g.Name, g.Rate, g.Size)
	if g.Count > 1 {
		text += fmt.Sprintf("*%d", g.Count)
	}
	return text
}

const stampSize = 16

// parseLoad parses "imu:1000:64,joint:200:3000*9".
func parseLoad(text string) (list []group, err error) {
	for part := range strings.SplitSeq(text, ",") {
		g := group{Count: 1}
		kind, count, several := strings.Cut(part, "*")
		fields := strings.Split(kind, ":")
		if len(fields) != 3 {
			return nil, fmt.Errorf("load %q: want NAME:HZ:BYTES[*N], like joint:200:3000*9", part)
		}
		var errs [4]error
		g.Name = fields[0]
		errs[0] = localach.CheckName(g.Name)
		g.Rate, errs[1] = strconv.ParseFloat(fields[1], 64)
		g.Size, errs[2] = strconv.Atoi(fields[2])
		if several {
			g.Count, errs[3] = strconv.Atoi(count)
		}
		if err := errors.Join(errs[:]...); err != nil {
			return nil, fmt.Errorf("load %q: %w", part, err)
		}
		if !(g.Rate > 0 && g.Rate <= 10_000) || g.Size < stampSize || g.Count < 1 {
			return nil, fmt.Errorf("load %q: want up to 10000 Hz, at least %d bytes, and at least one channel", part, stampSize)
		}
		list = append(list, g)
	}
	return list, nil
}

// load parses a load that is a constant of this program.
func load(text string) []group {
	list, err := parseLoad(text)
	if err != nil {
		panic(err)
	}
	return list
}

func names(list []scenario) (names []string) {
	for _, s := range list {
		names = append(names, s.name)
	}
	return names
}
