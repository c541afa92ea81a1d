package mirror

import (
	"fmt"

	"achbridge/bridge/status"
	"achbridge/localach"
)

// A merge puts the frames of one channel of several hosts into one channel, the output. The output is a Mirror with a file and a
// metadata channel, but without a feed. Each host has a Mirror with its subscription, counters and clock, but without a file: its
// field Into is the output. All of them share the output's mutex, so only one frame is put at a time. The tag of the output's file
// cannot name the newest frame of each host, so each of these mirrors has a put record.

// channel returns the mirror that has the file for m's frames: m, or the output of m's merge.
func (m *Mirror) channel() *Mirror {
	if m.Into != nil {
		return m.Into
	}
	return m
}

// ChannelName returns the name of the local channel that gets the mirror's frames.
func (m *Mirror) ChannelName() string { return m.channel().Name }

// openRecord prepares a mirror of a merge for the frames of node. It opens or creates the put record, which has the newest frame
// of that origin in the output.
func (m *Mirror) openRecord(node [16]byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	output, id := m.Into, localach.Tag{Node: node, Channel: channelHash(m.Host, m.Channel)}
	switch {
	case m.health.phase == closed || output.health.phase == closed:
		return errClosed
	case m.file.puts != nil && m.file.lost == output.file.lost:
		m.file.tag.Node = node
		return nil
	}
	r := output.file.merged[id.Channel]
	if r == nil {
		var err error
		if r, err = openPutRecord(m.Dir, mergeRecordName(output.Name, id.Channel)); err != nil {
			return fmt.Errorf("%s: cannot record which frame is put: %w", output.Name, err)
		}
		output.keepRecord(id.Channel, r)
	}
	m.file.puts, m.file.lost, m.file.tag = r, output.file.lost, id
	if output.file.ch != nil {
		if tag, _ := r.recall(output.file.ch); tag.Channel == id.Channel {
			m.file.tag.Epoch, m.file.tag.Seq = tag.Epoch, tag.Seq
		}
	}
	if m.file.meta == nil {
		m.file.meta = &metadataChannel{blank: true, frame: status.Meta{Origin: m.Host}}
	}
	return nil
}

// mergeRecordName returns the name of the put record of an origin in the output of a merge.
func mergeRecordName(output string, origin uint64) string {
	return fmt.Sprintf("%s%016x", mergeRecordPrefix(output), origin)
}

// mergeRecordPrefix returns the common beginning of the names of an output's put records. It has blanks, so no channel has such a
// name.
func mergeRecordPrefix(output string) string {
	return fmt.Sprintf("merge %016x ", channelHash("", output))
}

// keepRecord adds the put record of an origin to m, the output of a merge. m.mu must be held.
func (m *Mirror) keepRecord(origin uint64, r *putRecord) {
	if m.file.merged == nil {
		m.file.merged = make(map[uint64]*putRecord)
	}
	m.file.merged[origin] = r
}

// openRecords opens the put records of the origins whose frames the file of m, the output of a merge, holds. By last_seq, a
// record shows whether the last put of an earlier daemon was done. openRecords stores that result at once, since later puts of
// other origins also change last_seq. m.mu must be held.
func (m *Mirror) openRecords() error {
	list, err := findRecords(m.Dir, mergeRecordPrefix(m.Name))
	for _, r := range list {
		tag, _ := r.recall(m.file.ch)
		if tag.Channel == 0 || m.file.merged[tag.Channel] != nil {
			r.close()
			continue
		}
		r.note(m.file.ch, tag, tag.Seq)
		m.keepRecord(tag.Channel, r)
	}
	return err
}

// moveRecords makes the put records of the output m refer to the file that replaces its file. m.mu must be held.
func (m *Mirror) moveRecords(old, replacement *localach.Channel) {
	for _, r := range m.file.merged {
		if tag, _ := r.recall(old); tag.Channel != 0 {
			r.note(replacement, tag, tag.Seq)
		}
	}
}

// forgetPuts clears the put records. Call it when the channel's file was initialised again. m.mu must be held.
func (m *Mirror) forgetPuts() {
	if m.file.puts != nil {
		m.file.puts.forget()
	}
	for _, r := range m.file.merged {
		r.forget()
	}
}

// closeRecords closes the put records. The output of a merge closes those of its mirrors. m.mu must be held.
func (m *Mirror) closeRecords() {
	if m.file.puts != nil && m.Into == nil {
		m.file.puts.close()
	}
	for _, r := range m.file.merged {
		r.close()
	}
	m.file.puts, m.file.merged = nil, nil
}

// emptyMetadata replaces the metadata channel by an empty one, if m is the output of a merge. Call it when the output has a new
// file, since the metadata has numbers of frames in the old file. m.mu must be held.
func (m *Mirror) emptyMetadata() {
	if m.IsMerge && m.file.meta != nil && m.file.meta.ch.LastSeq() != 0 {
		m.renewMeta(nil)
	}
}

// metadataWaits reports whether the metadata of the newest frame that m put into the output of its merge is still not written,
// because the lock of the metadata channel is taken. It tries to write it first. m.mu must be held.
func (m *Mirror) metadataWaits() bool {
	if m.Into == nil || m.file.meta == nil || !m.file.meta.isBusy {
		return false
	}
	m.writeMetadata()
	return m.file.meta.isBusy
}

// lacksMetadata is like metadataWaits, but m.mu must not be held.
func (m *Mirror) lacksMetadata() bool {
	if m.Into == nil {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.metadataWaits()
}
