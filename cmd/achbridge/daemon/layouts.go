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
)

// layoutsOf are what types says of channels. Those whose file cannot be used have no layout, and the
// daemon works all the same; wrong says why.
func layoutsOf(c *config.Config) (list layouts.Rules, wrong []string) {
	typed, problems := c.Layouts()
	for _, p := range problems {
		wrong = append(wrong, p.Error())
	}
	for _, t := range typed {
		l := layouts.Rule{Channels: t.Pattern}
		if t.Layout != nil {
			var err error
			if l.Packed, err = t.Layout.Pack(); err != nil {
				wrong = append(wrong, fmt.Sprintf("%s: %v", t.Layout.Name, err))
			}
		}
		list = append(list, l)
	}
	return list, wrong
}

// takeLayouts keeps the layouts that are in effect now. A file that has changed changes the key
// which names it. The caller holds reloading.
func (d *Daemon) takeLayouts(list layouts.Rules, r *api.ReloadReply) {
	if !reflect.DeepEqual(list, d.settings.layouts) && !slices.Contains(r.Changed, "types") {
		r.Changed = append(r.Changed, "types")
		slices.Sort(r.Changed)
	}
	d.settings.layouts = list
}

// warnOfLayouts tells the log of layouts that cannot be used.
func (d *Daemon) warnOfLayouts(wrong []string) {
	for _, text := range wrong {
		d.log.Warn("layout left out: other hosts do not learn the type", "err", text)
	}
}

// layout is what the origin of HOST/CHANNEL, or of a mirror, says of its frames.
func (c *control) layout(ctx context.Context, query url.Values) (r api.LayoutReply, err error) {
	found, err := c.node.Layout(ctx, strings.TrimPrefix(query.Get("of"), "ach://"))
	return api.LayoutReply{Host: found.Host, Channel: found.Channel, Layout: found.Packed, Why: found.Why}, err
}
