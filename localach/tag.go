package localach

// Tag identifies the origin channel of a mirror and the newest frame that was put. It is stored in words of the header that
// libach reserves and sets to zero (bytes 144 to 199). A channel that is no mirror has the zero Tag.
//
// The file stores the difference between the origin's frame numbers and the mirror's own. It is written before each put, so that
// after a crash Seq is right, whether the put was completed or not. The file also stores the mirror's number of the last frame
// that we put, since later frames are from other programs.
type Tag struct {
	Node    [16]byte // node id of the origin
	Channel uint64   // identity of the origin's channel
	Epoch   uint64   // epoch of the origin's channel
	Seq     uint64   // origin's number of the newest frame that was put
}
