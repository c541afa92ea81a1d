package ui

import (
	"context"
	"fmt"
	"io"
	"os"

	tea "charm.land/bubbletea/v2"
	"golang.org/x/sys/unix"
)

// UsualWidth and UsualHeight are the columns and lines of a terminal that does not report its size, or reports 0, as on
// a serial line.
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

// Show displays a model on the terminal out until ctx ends or the model quits. It reads keys from in. An error begins
// with the name of the command.
func Show(ctx context.Context, command string, m tea.Model, in io.Reader, out *os.File) error {
	_, err := tea.NewProgram(m, tea.WithContext(ctx), tea.WithOutput(out), tea.WithInput(in), tea.WithoutSignalHandler(),
		tea.WithFilter(sized)).Run()
	if ctx.Err() != nil || err == nil {
		return nil
	}
	return Failure(fmt.Errorf("%s: %w", command, err), "")
}

// sized replaces a size of 0 with the usual size.
func sized(_ tea.Model, msg tea.Msg) tea.Msg {
	if size, ok := msg.(tea.WindowSizeMsg); ok && (size.Width == 0 || size.Height == 0) {
		return tea.WindowSizeMsg{Width: UsualWidth, Height: UsualHeight}
	}
	return msg
}

// Page returns a view of a whole screen of text.
func Page(text string) tea.View {
	v := tea.NewView(text)
	v.AltScreen = true
	return v
}
