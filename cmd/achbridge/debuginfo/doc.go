// Package debuginfo makes layouts from the debug information of programs.
//
//	p, err := debuginfo.Open("controller")
//	l, warnings, err := p.Layout("imu_msg")
//
// It reads ELF programs and objects of any language whose structs are as in C. The files may
// come from anywhere: a damaged one gives an error. The daemon does not import this package.
package debuginfo
