package config

import (
	"strings"

	"achbridge/bridge/rule"
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
	at, err := rule.ParseChannel(channel)
	if err != nil {
		return Explanation{}, err
	}
	return Explanation{at.String(), c.Path, c.Judgements(at.Host, at.Channel, wish)}, nil
}
