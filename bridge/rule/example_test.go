package rule_test

import (
	"fmt"

	"achbridge/bridge/rule"
)

func ExampleParseMirror() {
	request, err := rule.ParseMirror("krang/*,budget=20ms,priority=7", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(request.Name("krang", "imu"), request.QoS.Budget, request.QoS.Priority)

	_, err = rule.ParseMirror("krang/*,budget=20", nil)
	fmt.Println(err)
	// Output:
	// krang.imu 20ms 7
	// mirror "krang/*,budget=20": budget "20": want a time above zero, as in 100ms or 1s
}
