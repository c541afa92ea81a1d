package main

import (
	"fmt"
	"slices"
	"strings"
)

// tool is one way to carry channels from the robot to the PC.
type tool struct {
	name, about string
	largest     int                         // bytes of a frame; 0: any
	mirror      func(channel string) string // the name of the channel on the PC
	start       func(s *scene) error        // starts it on both hosts
}

// tools are those that are compared; the first is what the others' ages are divided by.
var tools = []tool{
	{name: "achd-tcp", about: "what achd does: TCP, every frame, one process per channel on each host", mirror: same, start: achd("tcp", "0")},
	{name: "achd-tcp-last", about: "achd -l: TCP, the newest frame each time", mirror: same, start: achd("tcp", "1")},
	{name: "udp-last", about: "achd -t udp -l: the newest frame as one datagram, and nothing else", largest: 65507, mirror: same, start: achd("udp", "1")},
	{name: "achbridge-quic", about: "this project over QUIC", mirror: fromRobot, start: achbridge("quic")},
	{name: "achbridge-sctp", about: "this project over SCTP", mirror: fromRobot, start: achbridge("sctp")},
}

func same(channel string) string      { return channel }
func fromRobot(channel string) string { return "robot." + channel }

// chosen are the tools of a comma separated list.
func chosen(text string) (list []tool, err error) {
	for name := range strings.SplitSeq(text, ",") {
		i := slices.IndexFunc(tools, func(t tool) bool { return t.name == name })
		if i < 0 {
			var known []string
			for _, t := range tools {
				known = append(known, t.name)
			}
			return nil, fmt.Errorf("no tool %q; there are %s", name, strings.Join(known, ", "))
		}
		list = append(list, tools[i])
	}
	return list, nil
}

func achbridge(transport string) func(*scene) error {
	return func(s *scene) error {
		key := s.path("key")
		if _, err := s.output("robot", "achbridge", "key", "new", "--key", key); err != nil {
			return err
		}
		var wishes []string
		for _, g := range s.scenario.load {
			for _, c := range g.channels() {
				wishes = append(wishes, "--mirror", "robot/"+c)
			}
		}
		common := []string{"run", "--key", key, "--transport", transport}
		if err := s.run("robot", "achbridge", common...); err != nil {
			return err
		}
		return s.run("pc", "achbridge", append(common, wishes...)...)
	}
}

func achd(way, last string) func(*scene) error {
	const port = "8076"
	return func(s *scene) error {
		robot, err := s.lab.Addr("robot")
		if err != nil {
			return err
		}
		if err := s.run("robot", "achd", "serve", port); err != nil {
			return err
		}
		for _, g := range s.scenario.load {
			for _, c := range g.channels() {
				script := `while ! "$0" pull "$@"; do sleep 0.25; done` // as achd -r
				args := []string{"-c", script, s.programs.path("achd"), robot.String(), port, c, channelFile(c), way, last}
				if err := s.run("pc", "/bin/sh", args...); err != nil {
					return err
				}
			}
		}
		return nil
	}
}
