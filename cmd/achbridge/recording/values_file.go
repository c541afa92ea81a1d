package recording

import (
	"github.com/foxglove/mcap/go/mcap"
)

// ValuesFile is a file with the values of recorded frames as protobuf messages, for other programs. Its topics have the
// names of the channels, but Reader does not return them as channels, so that play does not put the messages.
type ValuesFile struct{ w *writer }

// CreateValues creates a ValuesFile. The file must not exist. facts are its metadata. The caller must call Close.
func CreateValues(path string, facts map[string]string) (*ValuesFile, error) {
	w, err := newWriter(path, facts)
	if err != nil {
		return nil, err
	}
	return &ValuesFile{w}, nil
}

// ValuesOf returns the topic for the messages of a recorded topic. name and descriptors describe the message type. Call it
// once for each message type of a recorded topic: each result is a topic of its own in the file.
func ValuesOf(t Topic, name string, descriptors []byte) Topic {
	return Topic{Channel: t.Channel, Host: t.Host, Origin: t.Origin, isValues: true, Type: &Type{Name: name, Schema: Schema{"protobuf", string(descriptors)}}}
}

// Message writes the message that frame r was converted to. t is a result of ValuesOf.
func (f *ValuesFile) Message(t Topic, r Record, message []byte) error {
	return f.w.frame(t, mcap.Message{Sequence: r.Seq, LogTime: uint64(r.Log.UnixNano()), PublishTime: uint64(r.Publish.UnixNano()), Data: message})
}

// Close completes and closes the file. Without Close, it is damaged.
func (f *ValuesFile) Close() error {
	_, err := f.w.close()
	return err
}
