package ui

import (
	"os"

	"golang.org/x/sys/unix"
)

// A terminal that does not tell its size, as on a serial line, is taken to have UsualWidth
// columns and UsualHeight lines. Whoever is told a size of 0 takes them too.
const (
	UsualWidth  = 80
	UsualHeight = 24
)

// ScreenSize returns the columns and lines of a terminal.
func ScreenSize(out *os.File) (width, height int) {
	size, err := unix.IoctlGetWinsize(int(out.Fd()), unix.TIOCGWINSZ)
	if err != nil || size.Col == 0 || size.Row == 0 {
		return UsualWidth, UsualHeight
	}
	return int(size.Col), int(size.Row)
}
