package config

import (
	"fmt"
	"strconv"

	"achbridge/bridge/rule"
)

// Kernel is how the daemon uses the kernel's Ach module. Each value includes those before it.
type Kernel int

// The values of kernel.
const (
	KernelUnused Kernel = iota
	KernelExports
	KernelMirrors
)

func (k Kernel) String() string {
	if k == KernelMirrors {
		return "mirror"
	}
	return strconv.FormatBool(k == KernelExports)
}

// parseKernel parses the value of kernel.
func parseKernel(text string) (Kernel, error) {
	if text == "mirror" {
		return KernelMirrors, nil
	}
	on, err := strconv.ParseBool(text)
	if err != nil {
		return KernelUnused, fmt.Errorf("%q: want false; true, to export kernel channels; or mirror, to make mirrors in the kernel too", text)
	}
	if on {
		return KernelExports, nil
	}
	return KernelUnused, nil
}

// KernelRisk returns what can happen to this host by kernel: true or mirror. It returns "" without that setting.
func (c *Config) KernelRisk() string {
	text := "it exports kernel channels, so this host can crash if a program removes one and creates one without a pause: the kernel's Ach module " +
		"corrupts a list when a descriptor of the removed channel is closed after that; leave 100 ms between"
	switch c.Kernel {
	case KernelUnused:
		return ""
	case KernelMirrors:
		text += "; it also makes mirrors in the kernel, and a program that has a removed kernel channel open when one is made crashes this host when it closes it"
	}
	return problem{c.placeOf("kernel", -1), text}.Error()
}

// NotInKernel returns a warning for each rule whose mirrors are not copied into the kernel although kernel is mirror.
func (c *Config) NotInKernel() (list []string) {
	if c.Kernel != KernelMirrors {
		return nil
	}
	note := func(from string, class rule.Class, mode rule.FileMode) {
		why := ""
		switch {
		case class == rule.Command:
			why = "they have class command: a command that waits for a kernel channel cannot be taken back when it expires"
		case mode != 0:
			why = "they have file_mode: udev determines who may open a kernel channel"
		default:
			return
		}
		list = append(list, c.ruleText(from)+": its mirrors are in shared memory only, in spite of kernel: mirror, since "+why)
	}
	for _, m := range c.MirrorRules {
		note(m.From, m.QoS.Class, m.FileMode)
	}
	for _, g := range c.AcceptGrants {
		note(g.From, g.QoS.Class, g.FileMode)
	}
	return list
}
