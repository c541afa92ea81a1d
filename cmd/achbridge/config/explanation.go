package config

import (
	"strings"

	"achbridge/bridge/rule"
)

// Explanation is the answer of achbridge explain.
type Explanation struct {
	Channel    string      `json:"channel"` // HOST/CHANNEL
	File       string      `json:"file"`    // the configuration file; empty if there is none
	Judgements []Judgement `json:"verdicts"`
}

// Explain returns the rules that apply to a channel: HOST/CHANNEL, or a CHANNEL of this host.
// See Judgements for wish.
func (c *Config) Explain(channel string, requestOf mirrorRequestFunc) (Explanation, error) {
	if !strings.Contains(channel, "/") {
		channel = c.Name + "/" + channel
	}
	at, err := rule.ParseChannel(channel)
	if err != nil {
		return Explanation{}, err
	}
	return Explanation{at.String(), c.Path, c.Judgements(at.Host, at.Channel, requestOf)}, nil
}
