package daemon

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"achbridge/bridge"
	"achbridge/bridge/trust"
	"achbridge/cmd/achbridge/api"
	"achbridge/cmd/achbridge/config"
)

// hardware returns hashes that identify the hardware of this machine, one for each part: the permanent
// addresses of the network interfaces, and the board's serial number. A copied disk has none of them. sys
// is the path of sysfs. Parts that this user may not read are left out; in a container there may be none.
func hardware(sys string) (parts []string) {
	add := func(kind, value string) {
		sum := sha256.Sum256([]byte("achbridge " + kind + " " + value))
		parts = append(parts, hex.EncodeToString(sum[:8]))
	}
	cards, _ := filepath.Glob(filepath.Join(sys, "class/net/*/device"))
	slices.Sort(cards)
	for _, device := range cards {
		dir := filepath.Dir(device)
		const asBuilt = "0" // NET_ADDR_PERM of <linux/netdevice.h>
		if address := line(dir, "address"); line(dir, "addr_assign_type") == asBuilt && strings.Trim(address, "0:") != "" {
			add("mac", address)
		}
	}
	for _, file := range []string{"class/dmi/id/board_serial", "firmware/devicetree/base/serial-number"} {
		if serial := line(sys, file); isSerial(serial) {
			add("serial", serial)
		}
	}
	return parts
}

// line returns the text of a file in dir without white space around it, "" if it cannot be read.
func line(dir, file string) string {
	text, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil {
		return ""
	}
	return strings.Trim(string(text), " \n\x00")
}

// isSerial reports whether s can be a serial number. Many boards have a placeholder instead,
// such as "To be filled by O.E.M.", "Default string" or "0123456789".
func isSerial(s string) bool {
	different := map[rune]bool{}
	for _, r := range s {
		different[r] = true
	}
	return len(different) >= 4 && strings.ContainsAny(s, "0123456789") && !strings.Contains("01234567890123456789", s)
}

// bootID returns the kernel's id of this boot, zero if it cannot be read. proc is the path of procfs.
func bootID(proc string) (id [16]byte) {
	text := strings.ReplaceAll(line(proc, "sys/kernel/random/boot_id"), "-", "")
	if b, err := hex.DecodeString(text); err == nil && len(b) == len(id) {
		copy(id[:], b)
	}
	return id
}

// machineOf returns the machine that node sends to its peers. hardware is that of identity, empty if it is not known.
func machineOf(hardware string, boot [16]byte, node trust.NodeID) bridge.Machine {
	m := bridge.Machine{Boot: boot}
	if hardware != "" {
		sum := sha256.Sum256(append(node[:], hardware...))
		copy(m.Hardware[:], sum[:])
	}
	return m
}

// machinesName is the name of the file in the state directory that keeps the machine to which commands
// and pushes for each host went last.
const machinesName = "machines"

// machineFile reads and writes the file machinesName. Without a path the machines are forgotten when the daemon ends.
type machineFile struct {
	path  string
	log   *slog.Logger
	write chan map[string]bridge.Machine // holds the newest map, which run has not written yet
}

func newMachineFile(path string, log *slog.Logger) *machineFile {
	return &machineFile{path: path, log: log, write: make(chan map[string]bridge.Machine, 1)}
}

// locksName is the name of the file in the state directory that keeps the operator locks of this host's channels.
const locksName = "operators"

// lockFile returns the operator locks in the file at path, and a function that writes them. keep is nil without a path.
func lockFile(path string, log *slog.Logger) (locks []byte, keep func([]byte) error) {
	if path == "" {
		return nil, nil
	}
	locks, err := config.ReadFile(path, mostMachines)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		log.Warn("cannot read the operator locks, nobody holds one", "file", path, "err", err)
	}
	return locks, func(text []byte) error { return config.KeepFile(path, text, 0o644) }
}

// keptMachine is a machine in the file, with its fields in hexadecimal.
type keptMachine struct {
	Hardware string `json:"hardware"`
	Boot     string `json:"boot"`
}

// mostMachines bounds the size of the file, in bytes.
const mostMachines = 4 << 20

// read returns the machines by host name, as far as they can be read. It renames a damaged file and
// logs a warning.
func (f *machineFile) read() map[string]bridge.Machine {
	text, err := config.ReadFile(f.path, mostMachines)
	if f.path == "" || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	machines := map[string]bridge.Machine{}
	if err == nil {
		machines, err = parseMachines(text)
	}
	if err != nil {
		damagedPath := f.path + ".damaged"
		f.log.Warn("cannot read machines of earlier commands, keeping the file", "file", damagedPath, "err", errors.Join(err, os.Rename(f.path, damagedPath)))
	}
	return machines
}

// parseMachines returns the machines that can be read, and an error about the others.
func parseMachines(text []byte) (machines map[string]bridge.Machine, err error) {
	var list map[string]keptMachine
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, err
	}
	machines = make(map[string]bridge.Machine, len(list))
	for host, k := range list {
		hardware, hardwareErr := hex.DecodeString(k.Hardware)
		boot, bootErr := hex.DecodeString(k.Boot)
		var m bridge.Machine
		if hardwareErr != nil || bootErr != nil || len(hardware) != len(m.Hardware) || len(boot) != len(m.Boot) {
			err = fmt.Errorf("the machine of %s is damaged", host)
			continue
		}
		copy(m.Hardware[:], hardware)
		copy(m.Boot[:], boot)
		machines[host] = m
	}
	return machines, err
}

// keep has run write the machines to the file soon. It does not block.
func (f *machineFile) keep(machines map[string]bridge.Machine) {
	for {
		select {
		case f.write <- machines:
			return
		case <-f.write: // drops the older map
		}
	}
}

// run writes the machines that keep was called with, at most once a second, until ctx ends.
func (f *machineFile) run(ctx context.Context) {
	for {
		select {
		case machines := <-f.write:
			if err := f.save(machines); err != nil {
				f.log.Warn("cannot store machines of commands, they are unknown after a restart", "err", err)
			}
			api.Rest(ctx, time.Second)
		case <-ctx.Done():
			return
		}
	}
}

func (f *machineFile) save(machines map[string]bridge.Machine) error {
	if f.path == "" {
		return errors.New("there is no state directory")
	}
	list := make(map[string]keptMachine, len(machines))
	for host, m := range machines {
		list[host] = keptMachine{hex.EncodeToString(m.Hardware[:]), hex.EncodeToString(m.Boot[:])}
	}
	text, err := json.MarshalIndent(list, "", "  ")
	if err != nil {
		return err
	}
	return config.KeepFile(f.path, append(text, '\n'), 0o644)
}
