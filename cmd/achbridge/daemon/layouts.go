package daemon

import (
	"context"
	"fmt"
	"net/url"
	"reflect"
	"slices"
	"strings"

	"achbridge/bridge/layouts"
	"achbridge/cmd/achbridge/api"
	"achbridge/cmd/achbridge/config"
	"achbridge/localach"
)

// layoutsOf returns the layouts that the option types of the configuration assigns to channels. A channel
// whose file cannot be used gets no layout; wrong has the reasons. The daemon can run without these layouts.
func layoutsOf(c *config.Config) (list layouts.Rules, wrong []string) {
	typed, problems := c.Layouts()
	for _, p := range problems {
		wrong = append(wrong, p.Error())
	}
	for _, t := range typed {
		l := layouts.Rule{Channels: t.Pattern}
		if t.Layout != nil {
			var err error
			if l.Encoded, err = t.Layout.Encode(); err != nil {
				wrong = append(wrong, fmt.Sprintf("%s: %v", t.Layout.Name, err))
			}
		}
		list = append(list, l)
	}
	return list, wrong
}

// publishedIn returns a function that finds the layout of a channel that `achbridge publish` has made.
func publishedIn(dir localach.Dir) func(channel string) (encoded []byte) {
	return func(channel string) []byte {
		l := config.PublishedLayout(dir, channel)
		if l == nil {
			return nil
		}
		encoded, _ := l.Encode() // nil after an error: the channel then has no layout
		return encoded
	}
}

// takeLayouts stores the current layouts. If they differ from the former ones, it adds the option types to
// r.Changed, even if only the content of a layout file changed. settings.mu must be held.
func (d *Daemon) takeLayouts(list layouts.Rules, r *api.ReloadReply) {
	if !reflect.DeepEqual(list, d.settings.layouts) && !slices.Contains(r.Changed, "types") {
		r.Changed = append(r.Changed, "types")
		slices.Sort(r.Changed)
	}
	d.settings.layouts = list
}

// warnOfLayouts logs each layout that cannot be used.
func (d *Daemon) warnOfLayouts(wrong []string) {
	for _, text := range wrong {
		d.log.Warn("layout omitted, other hosts do not get it", "err", text)
	}
}

// layout returns the layout that the origin of HOST/CHANNEL, or of a mirror, has for its frames.
func (c *control) layout(ctx context.Context, query url.Values) (r api.LayoutReply, err error) {
	found, err := c.node.Layout(ctx, strings.TrimPrefix(query.Get("of"), "ach://"))
	return api.LayoutReply{Host: found.Host, Channel: found.Channel, Layout: found.Encoded, Why: found.Why}, err
}
