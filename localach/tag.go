package localach

// Tag says who made a mirror, and which frame of the origin was put there last. It lives in words of the header that libach
// reserves and leaves zero (bytes 144 to 191), with a mark of its own. The zero Tag is that of a channel that is no mirror.
//
// The file holds how far the origin's numbers are ahead of the channel's own, which is written before the put: whoever opens
// the file after a crash finds the right Seq, whether the put came about or not.
type Tag struct {
	Node    [16]byte // that the frames come from
	Channel uint64   // identity of the origin's channel
	Epoch   uint64   // of the origin
	Seq     uint64   // newest frame of the origin that was put
}
