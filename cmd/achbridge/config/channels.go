package config

import (
	"errors"
	"fmt"
	"os/user"
	"slices"
	"strconv"

	"achbridge/bridge/rule"
	"achbridge/cmd/achbridge/ui"
	"achbridge/localach"
)

// Channel is an entry of the list channels: a channel of this host that the daemon creates when it starts.
type Channel struct {
	Name     string
	Geometry localach.Geometry
	FileMode rule.FileMode // permissions of the new file
	Group    string        // name or id of the new file's group; empty means the daemon's
	Keep     bool          // store the newest frame, and put it back after a reboot
	From     string        // path of the rule, as in channels[0]
}

// MaxKept is the largest size of a kept frame, and the largest nominal frame size of a channel with keep, in bytes.
const MaxKept = 16 << 20

// channelRules makes the rules of channels.
func (b *ruleBuilder) channelRules(rules []ruleEntry) (list []Channel) {
	for _, r := range rules {
		c := Channel{Geometry: localach.Geometry{FrameCount: 16, FrameSize: 512}, From: r.at.Path} // the defaults of ach mk
		before := len(b.Problems)
		for _, o := range r.options {
			if len(o.values) > 0 {
				b.addError(o.values[0].at, c.set(o.key, o.values[0].text))
			}
		}
		if len(b.Problems) > before {
			continue
		}
		b.addError(r.at, c.check())
		if i := slices.IndexFunc(list, func(o Channel) bool { return o.Name == c.Name }); i >= 0 {
			b.add(r.at, "%s also creates %s; remove one of the two entries", list[i].From, c.Name)
		}
		list = append(list, c)
	}
	return list
}

func (c *Channel) set(key, text string) (err error) {
	switch key {
	case "name":
		c.Name = text
		return localach.CheckName(text)
	case "frames":
		if c.Geometry.FrameCount, err = strconv.Atoi(text); err != nil {
			return fmt.Errorf("%q: want a number of frames, as in 16", text)
		}
	case "size":
		var size ui.Size
		err = size.Set(text)
		c.Geometry.FrameSize = int(size)
	case "mode":
		c.FileMode, err = rule.ParseFileMode(text)
	case "group":
		c.Group = text
	case "keep":
		if c.Keep = text == "last"; !c.Keep {
			return fmt.Errorf("%q: want last, or leave the line out", text)
		}
	}
	return err
}

func (c Channel) check() error {
	if c.Name == "" {
		return errors.New("names no channel; want name: CHANNEL")
	}
	if err := c.Geometry.Check(); err != nil {
		return err
	}
	if c.Keep && c.Geometry.FrameSize > MaxKept {
		return fmt.Errorf("keep: frames of %s are too large; want %s at most", ui.Bytes(c.Geometry.FrameSize), ui.Bytes(MaxKept))
	}
	return nil
}

// checkChannels records a problem for each entry whose channel a mirror, merge or mux also creates, and for each whose newest frame
// must not be kept.
func (c *Config) checkChannels(b *ruleBuilder) {
	for _, ch := range c.ChannelRules {
		if by := c.creatorOf(ch.Name); by != "" && !slices.ContainsFunc(c.Adopt, func(p string) bool { return rule.Match(p, ch.Name) }) {
			b.add(c.rules[ch.From].at, "%s creates %s itself, and writes only into channels that it created; remove this entry, or list %[2]s in adopt", by, ch.Name)
		}
	}
	c.checkKept(b)
}

// creatorOf returns the path of the rule of mirror, merge or mux that creates a channel as its mirror or output, "" if there is none.
// It ignores mirror rules with patterns.
func (c *Config) creatorOf(channel string) string {
	for _, m := range c.MirrorRules {
		if !m.Deny && !rule.IsPattern(m.Host) && !rule.IsPattern(m.Channel) && m.Name(m.Host, m.Channel) == channel {
			return m.From
		}
	}
	if m, ok := c.MirrorRules.MergeInto(channel); ok {
		return m.From
	}
	if m, ok := c.MuxRules.For(channel); ok {
		return m.From
	}
	return ""
}

// checkKept records a problem for each channel with keep whose newest frame must not be put back after a reboot: since the frame may
// be a command, since its stamps count from the previous boot, or since another host or a mux may write the channel.
func (c *Config) checkKept(b *ruleBuilder) {
	for _, ch := range c.ChannelRules {
		if !ch.Keep {
			continue
		}
		at := c.rules[ch.From].at
		if o, ok := c.rules[ch.From].option("keep"); ok {
			at = o.at
		}
		if by := c.writerOf(ch.Name); by != "" {
			b.add(at, "%s: %s; keep is only for channels that no one but programs of this host may write", ch.Name, by)
		}
		for _, p := range c.PushRules {
			switch {
			case p.Deny || !rule.Match(p.Channel, ch.Name):
			case p.QoS.Class == rule.Command:
				b.add(at, "%s: %s pushes it with class command, and an old command must not come back", ch.Name, p.From)
			case p.QoS.Stamps != "":
				b.add(at, "%s: %s pushes it with stamps, which mean nothing after a reboot", ch.Name, p.From)
			}
		}
	}
}

// writerOf returns a text that names what may write into a channel other than a program of this host, or "". Mirror rules with
// patterns do not matter unless adopt names the channel, since a mirror does not write into another existing channel.
func (c *Config) writerOf(channel string) string {
	if by := c.creatorOf(channel); by != "" {
		return by + " writes it"
	}
	for i, pattern := range c.Adopt {
		if rule.Match(pattern, channel) {
			return fmt.Sprintf("adopt[%d] lets a mirror write into it", i)
		}
	}
	for i, pattern := range c.AchdAccept {
		if rule.Match(pattern, channel) {
			return fmt.Sprintf("achd.accept[%d] lets programs of other hosts write into it", i)
		}
	}
	for _, m := range c.MuxRules {
		if m.Has(channel) {
			return "it is an input of " + m.From + ", and inputs carry commands"
		}
	}
	v := c.acceptJudgement(channel)
	_, g, _ := c.AcceptGrants.About(channel)
	switch {
	case !v.Applies:
		return ""
	case g.Operator != nil:
		return v.Rule + " lets the holder of the operator lock push into it"
	}
	return v.Rule + " lets other hosts push into it"
}

// GroupID returns the id of the rule's group, nil if the rule names none. It returns an error if this host has no such group.
func (c Channel) GroupID() (*int, error) {
	if c.Group == "" {
		return nil, nil
	}
	g, err := user.LookupGroup(c.Group)
	if err != nil {
		g, err = user.LookupGroupId(c.Group)
	}
	if err != nil {
		return nil, fmt.Errorf("there is no group %s on this host", c.Group)
	}
	id, err := strconv.Atoi(g.Gid)
	return &id, err
}

// CheckGroups returns a problem for each group in the list channels that does not exist, or of which the daemon's user is not a
// member. groups has the ids of the user's groups; nil means root, who may set every group.
func (c *Config) CheckGroups(groups []int) (ps Problems) {
	for _, ch := range c.ChannelRules {
		id, err := ch.GroupID()
		if id != nil && groups != nil && !slices.Contains(groups, *id) {
			err = fmt.Errorf("the daemon's user is not in group %s: usermod -a -G %[1]s USER, then restart the daemon; or name another group", ch.Group)
		}
		if err != nil {
			at, _ := c.rules[ch.From].option("group")
			ps.add(at.at, "%v", err)
		}
	}
	return ps
}

// channelJudgements returns the judgement about the entry of the list channels that creates a channel, or nil if there is none.
func (c *Config) channelJudgements(channel string) (list []Judgement) {
	for _, ch := range c.ChannelRules {
		if ch.Name != channel {
			continue
		}
		v := c.ruled("channels", c.Name+"/"+channel, ch.From)
		v.Applies, v.Result = true, fmt.Sprintf("created when the daemon starts: %d frames of %d bytes", ch.Geometry.FrameCount, ch.Geometry.FrameSize)
		if ch.Keep {
			v.Result += "; its newest frame is kept"
		}
		list = append(list, v)
	}
	return list
}
