// Package foxglove serves the channels of this host to viewers: Foxglove, Lichtblick and others that speak
// Foxglove's WebSocket protocol, under either name of its subprotocol. Viewers only read.
//
//	s, err := foxglove.New(foxglove.Config{Name: "krang", Dir: localach.Shm, Token: token, Node: node, Log: log})
//	go s.Run(ctx)
//	err = http.Serve(ln, s)
//
// A viewer must not make frames older, neither on a link nor for another viewer:
//
//   - Each topic of a viewer has one slot. A slot holds no frame, only that there is a newer one. The frame is read from
//     the ring when its message is sent, so the message has the newest frame (queue.go).
//   - After each message the server sends a ping. At most two messages wait for their pong, so hardly any frames wait in
//     the network (viewer.go).
//   - A channel is polled only while a viewer subscribes to it, by a watcher of this package (source.go). A frame is read
//     and converted once for all viewers that want it in one encoding.
//
// Clients are untrusted until they show the token, and their messages have limits after that (handshake.go, request.go).
//
//	server.go     viewers, sources      handshake.go  who may connect, and how
//	viewer.go     one viewer            request.go    messages from viewers
//	queue.go      what is sent when     reply.go      messages to viewers
//	source.go     one channel           encoding.go   frames in the encodings of viewers
//	catalog.go    which topics exist    own_topics.go ages and events
//	token.go      the token's file
package foxglove
