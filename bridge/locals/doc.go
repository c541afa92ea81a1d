// Package locals keeps the channels of this host that peers may read, and the reasons why peers may not read others.
//
//	table := locals.New(locals.Config{…})   // of a node
//	changed := table.Update(name)           // after each change of the channel directory
//	table.Check(update)                     // several times a second: files that changed without an event
//	c := table.Get(name)                    // nil if there is no such channel
//
// A Table belongs to the node's goroutine. Links may use an open channel until Config.Closing is called for it.
//
//	table.go    all channels: limit, files that changed
//	channel.go  one channel: may peers read it, and if not, why
package locals
