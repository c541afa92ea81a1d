package main

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
)

// tool is one way to carry channels from the robot to the PC.
type tool struct {
	name, about string
	largest     int                         // largest frame in bytes; 0 means no limit
	bare        string                      // "quic" or "udp" if the ends exchange such datagrams themselves, without channels; else ""
	ends        string                      // program at both ends; "" means ends
	mirror      func(channel string) string // returns the name of the channel on the PC
	start       func(s *scene) error        // starts the tool on both hosts
	library     string                      // NAME of c/NAME.c, which c/carry.c drives; "" for other tools
	idl         string                      // input of idlc
	packages    []string                    // Debian packages that the tool needs
}

// tools are the tools to compare. Ratios are relative to the first one.
var tools = []tool{
	{name: "achd-tcp", about: "what achd does: TCP, every frame, one process per channel on each host", mirror: same, start: achd("tcp", "0")},
	{name: "achd-tcp-last", about: "achd -l: TCP, the newest frame each time", mirror: same, start: achd("tcp", "1")},
	{name: "udp-last", about: "achd -t udp -l: the newest frame as one datagram, and nothing else", largest: 65507, mirror: same, start: achd("udp", "1")},
	{name: "achbridge-quic", about: "this project over QUIC", mirror: fromRobot, start: achbridge("quic")},
	{name: "achbridge-sctp", about: "this project over SCTP", mirror: fromRobot, start: achbridge("sctp")},
	{name: "zeromq", about: "ZeroMQ over TCP, CONFLATE at both ends", mirror: same, start: startCarry(""), library: "zmq", packages: []string{"libzmq3-dev"}},
	{name: "mosquitto", about: "MQTT with QoS 0, its broker on the robot", mirror: same, start: startCarry("mosquitto -c %s"), library: "mosquitto", packages: []string{"mosquitto", "libmosquitto-dev"}},
	{name: "nats", about: "NATS, its server on the robot", mirror: same, start: startCarry("nats-server"), library: "nats", packages: []string{"nats-server", "libnats-dev"}},
	{name: "cyclonedds", about: "DDS by CycloneDDS, best effort, keep last 1", mirror: same, start: startCarry(""), library: "ddsc", idl: "octets", packages: []string{"cyclonedds-dev", "cyclonedds-tools"}},
	{name: "quic-ping", about: "bare datagrams of quic-go without channels or any tool", bare: "quic", ends: "goping", start: func(*scene) error { return nil }},
	{name: "go-udp-ping", about: "bare UDP datagrams of a Go program, sent by a ticker", bare: "udp", ends: "goping", largest: 65507, start: func(*scene) error { return nil }},
	{name: "udp-ping", about: "bare datagrams without channels or any tool: the least there is", bare: "udp", largest: 65507, start: func(*scene) error { return nil }},
}

// program returns the program at both ends.
func (t tool) program() string { return cmp.Or(t.ends, "ends") }

func same(channel string) string      { return channel }
func fromRobot(channel string) string { return "robot." + channel }

// chosen returns the tools of a comma separated list.
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

// missing returns the packages that are not installed.
func (t tool) missing() (list []string) {
	for _, name := range t.packages {
		out, err := exec.Command("dpkg-query", "-W", "-f", "${db:Status-Abbrev}", name).Output()
		if err != nil || !strings.HasPrefix(string(out), "ii") {
			list = append(list, name)
		}
	}
	return list
}

func achbridge(transport string) func(*scene) error {
	return func(s *scene) error {
		key := s.path("key")
		if _, err := s.output("robot", "achbridge", "key", "new", "--key", key); err != nil {
			return err
		}
		var mirrors []string
		for _, g := range s.scenario.load {
			for _, c := range g.channels() {
				mirrors = append(mirrors, "--mirror", strings.TrimSuffix("robot/"+c+","+s.scenario.options, ","))
			}
		}
		common := []string{"run", "--key", key, "--transport", transport}
		if err := s.run("robot", "achbridge", common...); err != nil {
			return err
		}
		return s.run("pc", "achbridge", append(common, mirrors...)...)
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
				script := `while ! "$0" pull "$@"; do sleep 0.25; done` // like achd -r
				args := []string{"-c", script, s.programs.path("achd"), robot.String(), port, c, channelFile(c), way, last}
				if err := s.run("pc", "/bin/sh", args...); err != nil {
					return err
				}
			}
		}
		return nil
	}
}

const mosquittoConf = `listener 1883 0.0.0.0
allow_anonymous true
user root
set_tcp_nodelay true
max_queued_messages 1
`

// startCarry starts c/NAME.c on both hosts, and the broker on the writers' host.
func startCarry(broker string) func(*scene) error {
	return func(s *scene) error {
		robot, err := s.lab.Addr("robot")
		if err != nil {
			return err
		}
		if broker != "" {
			conf := s.path("mosquitto.conf")
			if err := os.WriteFile(conf, []byte(mosquittoConf), 0o644); err != nil {
				return err
			}
			words := strings.Fields(strings.ReplaceAll(broker, "%s", conf))
			if err := s.run("robot", "/usr/sbin/"+words[0], words[1:]...); err != nil {
				return err
			}
		}
		args := []string{robot.String()}
		for _, g := range s.scenario.load {
			for _, c := range g.channels() {
				args = append(args, c, strconv.Itoa(g.Size))
			}
		}
		if err := s.run("robot", s.tool.name, append([]string{"send"}, args...)...); err != nil {
			return err
		}
		return s.run("pc", s.tool.name, append([]string{"receive"}, args...)...)
	}
}
