package kept

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"

	"achbridge/localach"
)

var (
	errDamaged  = errors.New("damaged: its checksum is wrong")
	errChannel  = errors.New("it has the frame of another channel")
	errGeometry = errors.New("its frame has another geometry")
)

// encode returns the content of the file with the frame of a channel.
func encode(channel string, g localach.Geometry, frame []byte) []byte {
	head := fmt.Sprintf("achbridge frame 1 of %s %v, %d bytes, sha256 ", channel, g, len(frame))
	hash := sha256.New()
	hash.Write([]byte(head))
	hash.Write(frame)
	return append(fmt.Appendf(nil, "%s%x\n", head, hash.Sum(nil)), frame...)
}

// decode returns the frame in the content of a file. It returns an error unless the content is what encode returned for this
// channel and geometry.
func decode(text []byte, channel string, g localach.Geometry) (frame []byte, err error) {
	head, frame, _ := bytes.Cut(text, []byte("\n"))
	var name string
	var of localach.Geometry
	_, err = fmt.Sscanf(string(head), "achbridge frame 1 of %s %dx%d,", &name, &of.FrameCount, &of.FrameSize)
	switch {
	case err != nil, len(frame) == 0, !bytes.Equal(text, encode(name, of, frame)):
		return nil, errDamaged
	case name != channel:
		return nil, fmt.Errorf("%w: %s", errChannel, name)
	case of != g:
		return nil, fmt.Errorf("%w: %v", errGeometry, of)
	case len(frame) > g.FrameCount*g.FrameSize:
		return nil, errDamaged
	}
	return frame, nil
}
