// Package diagnose says what keeps a channel from being fresh, and whether a link can
// carry what is asked of it.
//
//	s := diagnose.Snapshot{Host: "krang", Channel: "imu", Before: first, After: second, Apart: window}
//	list := diagnose.Findings(s)
//	fmt.Println(list[0].Cause, list[0].Text, list[0].Cure) // the verdict; notes follow
//
//	for _, d := range diagnose.DemandsOf(first, second, window, 0) {
//		fmt.Println(d.Problem()) // "" when the link can do it
//	}
//
// The package is pure: its caller collects the facts about the node, files and network.
package diagnose
