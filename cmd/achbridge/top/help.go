package top

// keys describes the effect of each key.
var keys = [][2]string{
	{"?", "show this page; any key but q goes back"},
	{"q, Ctrl-C", "quit"},
	{"up, down, k, j", "choose the channel above or below"},
	{"page up, page down", "choose one a page away"},
	{"home, end, g, G", "choose the first, which may then change; choose the last"},
	{"Enter", "show its ledger, link, values, events; unfold equal rows"},
	{"w", "diagnose it, as achbridge why does"},
	{"p p", "pause a mirror (one frame in 1000 s), or resume it"},
	{"+, -", "change the priority of a mirror"},
	{"Esc, Backspace", "go back to the list; in the list, show all channels"},
	{"/", "show only channels whose line contains a text"},
	{"s", "sort by another column"},
	{"u, a, r, d, n", "sort by USED, AGE, RATE, DROP, name"},
}

// signs describes the marks in the list.
var signs = [][2]string{
	{"WAY", "in: mirrored here; out: sent to another host"},
	{"USED", "lateness of its frames, in percent of the budget"},
	{"PUT", "frames a second put into the channel at its origin"},
	{"RATE", "frames a second that arrive here, or at the other host"},
	{"DROP", "frames a second that do not arrive, without replaced ones"},
	{"!", "over its budget, or not live"},
}

// helpPage returns the lines of the page of keys.
func (m model) helpPage() []string {
	lines := []string{m.paint("1", "keys"), ""}
	show := func(list [][2]string) {
		for _, k := range list {
			lines = append(lines, "  "+pad(k[0], 20)+k[1])
		}
	}
	show(keys)
	lines = append(lines, "")
	show(signs)
	beyond := "^"
	if m.screen.blocks {
		beyond = "▲"
	}
	show([][2]string{{beyond, "a peak far above the other ages: the scale leaves it out"}})
	return lines
}
