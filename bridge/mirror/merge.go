package mirror

import (
	"fmt"

	"achbridge/bridge/status"
	"achbridge/localach"
)

// A merge puts the frames of one channel of several hosts into one output. The output is a Mirror with a file, a
// metadata channel and no feed. Each host has a Mirror without a file, whose field Into is the output: it has the
// subscription, the counters and the clock of the host. All share the output's mutex, so that one frame is put at a
// time. Since the tag of the output's file cannot name the newest frame of each host, each mirror has a put record.

// channel returns the mirror that has the file for m's frames: m, or the output of m's merge.
func (m *Mirror) channel() *Mirror {
	if m.Into != nil {
		return m.Into
	}
	return m
}

// ChannelName returns the name of the local channel that gets the mirror's frames.
func (m *Mirror) ChannelName() string { return m.channel().Name }

// openRecord prepares a mirror of a merge for the frames of node: it finds out which frame of its origin the output
// holds.
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
			return fmt.Errorf("%s: what is put into it cannot be remembered: %w", output.Name, err)
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

// mergeRecordPrefix returns the beginning of the names of an output's put records. No channel has such a name.
func mergeRecordPrefix(output string) string {
	return fmt.Sprintf("merge %016x ", channelHash("", output))
}

// keepRecord adds the put record of an origin to those of the output. m.mu must be held.
func (m *Mirror) keepRecord(origin uint64, r *putRecord) {
	if m.file.merged == nil {
		m.file.merged = make(map[uint64]*putRecord)
	}
	m.file.merged[origin] = r
}

// openRecords opens the put records of the origins whose frames the output's file holds. It decides at once whether the
// last put of an earlier daemon was done: later puts of other origins also change last_seq. m.mu must be held.
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

// moveRecords makes the put records refer to the file that replaces the output's file. m.mu must be held.
func (m *Mirror) moveRecords(old, replacement *localach.Channel) {
	for _, r := range m.file.merged {
		if tag, _ := r.recall(old); tag.Channel != 0 {
			r.note(replacement, tag, tag.Seq)
		}
	}
}

// forgetPuts clears the put records, because the channel's file was initialised again. m.mu must be held.
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

// emptyMetadata replaces the metadata channel of a merge whose output has a new file, since the numbers in the metadata
// are those of the old file. m.mu must be held.
func (m *Mirror) emptyMetadata() {
	if m.IsMerge && m.file.meta != nil && m.file.meta.ch.LastSeq() != 0 {
		m.renewMeta(nil)
	}
}

// metadataWaits reports whether the metadata of the mirror's newest frame in the output of a merge could not be written
// yet, because the lock of the metadata channel was taken. It tries to write the metadata again. m.mu must be held.
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
