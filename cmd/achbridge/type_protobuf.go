package main

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"achbridge/cmd/achbridge/protofile"
	"achbridge/cmd/achbridge/ui"
)

// isDescriptors reports whether a file has protobuf descriptors, by its first byte: the tag of field 1 of a FileDescriptorSet. An ELF
// program begins with 0x7f.
func isDescriptors(file string) bool {
	f, err := os.Open(file)
	if err != nil {
		return false
	}
	defer f.Close()
	var first [1]byte
	_, err = io.ReadFull(f, first[:])
	return err == nil && bytes.Equal(first[:], []byte{0x0a})
}

// protobuf lists the messages of a protobuf file, or writes the layouts of those that are named.
func (i *typeImport) protobuf(file string, names []string) error {
	switch {
	case len(i.options) > 0:
		return ui.Usage(errors.New("type import: options after -- are for the compiler of a header"), "")
	case len(i.unions) > 0:
		return ui.Usage(errors.New("type import: --union is for structs"), "")
	case i.asJSON && len(names) > 0:
		return ui.Usage(errors.New("type import: --json is for the list, without MESSAGE"), "")
	}
	f, err := protofile.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return ui.NotFound(err, "")
	} else if err != nil {
		return ui.Failure(err, "")
	}
	if len(names) == 0 {
		return i.listMessages(f)
	}
	for _, name := range names {
		l, err := f.Layout(name)
		if errors.Is(err, fs.ErrNotExist) {
			return ui.NotFound(err, "achbridge type import FILE lists its messages")
		} else if err != nil {
			return ui.Failure(err, "")
		}
		if err := i.writeFile(l, "Of message "+l.Name+" in "+filepath.Base(file)); err != nil {
			return err
		}
	}
	return nil
}

// listedMessage is one message in the output of `type import` without MESSAGE.
type listedMessage struct {
	Message string `json:"message"`
	Source  string `json:"source"`
}

func (i *typeImport) listMessages(f *protofile.File) error {
	list, rows := []listedMessage{}, [][]string{}
	for _, m := range f.Messages() {
		list = append(list, listedMessage{m.Name, m.Source})
		rows = append(rows, []string{m.Source, m.Name})
	}
	if i.asJSON {
		return i.ui.JSON(list)
	}
	return i.ui.Table([]string{"SOURCE", "MESSAGE"}, rows)
}
