package config

import (
	"fmt"
	"strconv"
	"strings"

	"achbridge/localach"
)

// WatchBudget is the share of one processor, 0 to 1, that the daemon may use for polling
// without pause when a frame is expected. Its text is "5%", or "low" for none.
type WatchBudget float64

const (
	watchDefault = WatchBudget(localach.DefaultWatchBudget)
	watchLow     = "low"
)

func (b *WatchBudget) String() string {
	if *b == 0 {
		return watchLow
	}
	return strconv.FormatFloat(100*float64(*b), 'g', 4, 64) + "%"
}

func (b *WatchBudget) Type() string { return "SHARE" }

func (b *WatchBudget) Set(text string) error {
	if text == watchLow {
		*b = 0
		return nil
	}
	number, percent := strings.CutSuffix(text, "%")
	share, err := strconv.ParseFloat(number, 64)
	if err != nil || !percent || !(share > 0 && share <= 100) {
		return fmt.Errorf("%q: want a share of one processor such as %v, or %s", text, "5%", watchLow)
	}
	*b = WatchBudget(share / 100)
	return nil
}
