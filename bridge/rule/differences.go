package rule

import "strings"

// Differences lists the options of to that differ from those of from. It returns "" if there are none.
func Differences(from, to QoS) string {
	var list []string
	for _, o := range options {
		if text := o.Text(to); text != o.Text(from) && !(o.usual(from) && o.usual(to)) {
			list = append(list, o.Key+" "+text)
		}
	}
	return strings.Join(list, ", ")
}

// Changes describes for users how to differs from from, including options that returned to their defaults. It
// returns "" if nothing changed.
func Changes(from, to QoS) string {
	var set, reset []string
	for _, o := range options {
		switch text := o.Text(to); {
		case text == o.Text(from), o.usual(from) && o.usual(to):
		case o.usual(to):
			reset = append(reset, o.Key+" "+text)
		default:
			set = append(set, o.Key+" "+text)
		}
	}
	if len(set) > 0 {
		set[len(set)-1] += " now"
	}
	if len(reset) > 0 {
		set = append(set, "back to the default: "+strings.Join(reset, ", "))
	}
	return strings.Join(set, ", ")
}
