package config

import (
	"fmt"
	"strconv"
)

// parseKernel parses the value of the option kernel. It refuses mirrors in the kernel: if the creation of a channel fails because it
// is too large, the module crashes the kernel at the next creation.
func parseKernel(text string) (bool, error) {
	if text == "mirror" {
		return false, fmt.Errorf("%q: mirrors are not made in the kernel, since its module can crash there; want true, to export kernel channels, or false", text)
	}
	on, err := strconv.ParseBool(text)
	if err != nil {
		return false, fmt.Errorf("%q: want true or false", text)
	}
	return on, nil
}

// KernelRisk describes the damage that kernel: true can do to this host. It returns "" if the setting is off.
func (c *Config) KernelRisk() string {
	if !c.Kernel {
		return ""
	}
	return problem{c.placeOf("kernel", -1), "it exports kernel channels, so this host can crash if a program removes one and creates one without a pause: the kernel's Ach module " +
		"corrupts a list when a descriptor of the removed channel is closed after that; leave 100 ms between"}.Error()
}
