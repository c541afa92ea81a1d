// Package diagnose finds the reasons why a channel is not fresh, and checks whether a link can
// carry its subscriptions.
//
//	s := diagnose.Snapshot{Host: "krang", Channel: "imu", Before: first, After: second, Apart: window}
//	list := diagnose.Findings(s)
//	fmt.Println(list[0].Cause, list[0].Text, list[0].Cure) // the diagnosis; notes follow
//
//	for _, d := range diagnose.DemandsOf(first, second, window, 0) {
//		fmt.Println(d.Problem()) // "" if the link can carry it
//	}
//
// The package is pure: its caller collects the facts about the node, files and network.
package diagnose
