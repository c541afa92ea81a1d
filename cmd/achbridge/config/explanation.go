package config

import (
	"fmt"
	"strings"
)

// Explanation is what explain answers.
type Explanation struct {
	Channel  string      `json:"channel"` // HOST/CHANNEL
	File     string      `json:"file"`    // of the configuration; empty: there is none
	Verdicts []Judgement `json:"verdicts"`
}

// Explain answers for HOST/CHANNEL, or CHANNEL of this host.
func (c *Config) Explain(channel string, wish wishFunc) (Explanation, error) {
	if !strings.Contains(channel, "/") {
		channel = c.Name + "/" + channel
	}
	at, err := ParseAddress(channel)
	if err != nil || strings.ContainsAny(at.String(), `*?[\`) {
		return Explanation{}, fmt.Errorf("%q: want HOST/CHANNEL, as in krang/imu", channel)
	}
	return Explanation{at.String(), c.Path, c.Judgements(at.Host, at.Channel, wish)}, nil
}
