package config

import (
	"fmt"
	"strconv"
	"strings"
)

// The share of one processor, 0 to 1, that the daemon may use for polling without pause when a
// frame is expected, has the text "5%", or watchLow for none.
const watchLow = "low"

func watchText(share float64) string {
	if share == 0 {
		return watchLow
	}
	return strconv.FormatFloat(100*share, 'g', 4, 64) + "%"
}

func parseWatch(text string) (float64, error) {
	if text == watchLow {
		return 0, nil
	}
	number, percent := strings.CutSuffix(text, "%")
	share, err := strconv.ParseFloat(number, 64)
	if err != nil || !percent || !(share > 0 && share <= 100) {
		return 0, fmt.Errorf("%q: want a share of one processor such as %v, or %s", text, "5%", watchLow)
	}
	return share / 100, nil
}
