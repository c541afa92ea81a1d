// Package mux merges several channels of a host into one: the output gets the frames of the first input that is live, so
// that a motor driver gets the commands of one program at a time (sns-mplex; "Ach in the kernel", 2016, 3.4).
//
//	m := mux.Start(ctx, cfg, rule, facts, output) // output is a mirror that nothing else feeds
//	m.Set(rule, facts)                            // the rule or the facts have changed
//	m.CheckFiles()                                // the file of a channel has changed
//	m.Stop()
//
//	selector.go   which input wins, and when frames are put: pure
//	input.go      reads an input, and determines how long its frame is live
//	output.go     opens and writes the output; the safe frame
//	runner.go     the goroutine that waits for frames and puts them
//	mux.go        what the node calls
//	lock_file.go  only one process may run the mux of an output
package mux
