package config

import (
	"fmt"
	"strconv"
	"strings"
)

// watchLow is the text for a limit of 0 on the CPU share for busy polling. Other limits have the
// text "5%", for example.
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
		return 0, fmt.Errorf("%q: want a share of one CPU such as %v, or %s", text, "5%", watchLow)
	}
	return share / 100, nil
}
