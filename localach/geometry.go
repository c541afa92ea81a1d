package localach

import (
	"fmt"
	"os"
	"strings"
)

// Geometry is the size of a channel: how many frames its ring indexes, and the nominal size of a frame in bytes. A single
// frame may have up to FrameCount × FrameSize bytes, and then replaces others.
type Geometry struct {
	FrameCount int
	FrameSize  int
}

// defaultGeometry returns the default of libach.
func defaultGeometry() Geometry { return Geometry{FrameCount: 16, FrameSize: 512} }

// Limits of channels that Create creates. Larger ones are probably an error of the caller.
const (
	maxFrames = 1 << 20
	maxBytes  = 1 << 30
)

func (g Geometry) String() string { return fmt.Sprintf("%dx%d", g.FrameCount, g.FrameSize) }

// Check returns nil if all programs can create and open channels of this geometry, else an error that wraps ErrGeometry and
// names the nearest usable geometry. libach's open maps 24 bytes too few and relies on page rounding, so some sizes can be
// created but not opened (ach-abi.md, "File").
func (g Geometry) Check() error {
	if err := g.checkLimits(); err != nil {
		return err
	}
	if !g.openable() {
		return fmt.Errorf("%w: %v cannot be opened by libach; the nearest usable: %v", ErrGeometry, g, g.nearest())
	}
	return nil
}

func (g Geometry) checkLimits() error {
	switch {
	case g.FrameCount < 1 || g.FrameSize < 1:
		return fmt.Errorf("%w: %v: frame count and frame size must be at least 1", ErrGeometry, g)
	case g.FrameCount > maxFrames:
		return fmt.Errorf("%w: %v: more than %d frames", ErrGeometry, g, maxFrames)
	case g.FrameSize > (maxBytes-emptyBytes)/g.FrameCount-entryBytes:
		return fmt.Errorf("%w: %v: more than %d MiB", ErrGeometry, g, maxBytes>>20)
	}
	return nil
}

// Grow returns the geometry if libach can open it, else the nearest one with larger frames. It returns geometries that Check
// refuses for other reasons unchanged.
func (g Geometry) Grow() Geometry {
	for grown := g; grown.checkLimits() == nil; grown.FrameSize++ {
		if grown.openable() {
			return grown
		}
	}
	return g
}

func (g Geometry) nearest() Geometry {
	for d := 1; d <= os.Getpagesize(); d++ {
		for _, near := range []Geometry{{g.FrameCount, g.FrameSize + d}, {g.FrameCount, g.FrameSize - d}} {
			if near.checkLimits() == nil && near.openable() {
				return near
			}
		}
	}
	return defaultGeometry()
}

// bytes returns the length of the channel's file.
func (g Geometry) bytes() uint64 {
	return emptyBytes + uint64(g.FrameCount)*(entryBytes+uint64(g.FrameSize))
}

// openable reports whether the last 24 bytes are in the pages that libach's open maps.
func (g Geometry) openable() bool {
	page := uint64(os.Getpagesize())
	rest := (g.bytes() - 24) % page
	return rest != 0 && rest <= page-24
}

const filePrefix = "achshm-"

const maxName = 63

// CheckName returns nil if libach accepts the name, else an error that wraps ErrName.
func CheckName(name string) error {
	if name == "" || len(name) > maxName || name[0] == '.' || strings.IndexFunc(name, notInName) >= 0 {
		return fmt.Errorf("channel %q: %w", name, ErrName)
	}
	return nil
}

func notInName(r rune) bool {
	return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' || r == '.')
}
