package localach

// Tag says which channel a mirror is of, and which frame of it was put last. It is stored with a mark in words of the header
// that libach reserves and sets to zero (bytes 144 to 199). A channel that is no mirror has the zero Tag.
//
// The file stores the difference between the origin's frame numbers and the channel's own. It is written before the put. So
// after a crash Seq is right, whether the put was completed or not. Beside it stands how far the channel's numbers will be ours
// by that put: what other programs put afterwards is no frame of the origin.
type Tag struct {
	Node    [16]byte // that the frames come from
	Channel uint64   // identity of the origin's channel
	Epoch   uint64   // of the origin
	Seq     uint64   // newest frame of the origin that was put
}
