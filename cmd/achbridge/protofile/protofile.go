// Package protofile makes layouts from the messages of protobuf files.
//
//	f, err := protofile.Open("robot.proto")
//	l, err := f.Layout("robot.State") // err: no such message, or too large
//
// It reads .proto files, and compiled descriptors as protoc --descriptor_set_out --include_imports writes them. It does not run
// protoc.
package protofile

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/bufbuild/protocompile"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	"achbridge/bridge/layout"
)

// File has the message types of a protobuf file.
type File struct {
	path     string
	messages []protoreflect.MessageDescriptor
}

// Message is a message of a protobuf file.
type Message struct {
	Name   string // with its package
	Source string // file that declares it
}

// maxFile is the maximum size of a file, bytes.
const maxFile = 4 << 20

// Open reads a .proto file, or a file with descriptors. It searches for imported files in the directory of the file and in the
// directories above it.
func Open(path string) (f *File, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			f, err = nil, fmt.Errorf("%s: cannot be compiled: %v", path, cause)
		}
	}()
	if filepath.Ext(path) == ".proto" {
		return compile(path)
	}
	text, err := read(path)
	if err != nil {
		return nil, err
	}
	return openDescriptors(path, text)
}

// read returns the content of a file.
func read(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(text) > maxFile {
		err = fmt.Errorf("%s: larger than %d MiB", path, maxFile>>20)
	}
	return text, err
}

func compile(path string) (*File, error) {
	if _, err := os.Stat(path); err != nil {
		return nil, err
	}
	absolute, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	var dirs []string
	for dir := filepath.Dir(absolute); ; dir = filepath.Dir(dir) {
		dirs = append(dirs, dir)
		if dir == filepath.Dir(dir) {
			break
		}
	}
	open := func(path string) (io.ReadCloser, error) {
		text, err := read(path)
		return io.NopCloser(bytes.NewReader(text)), err
	}
	c := protocompile.Compiler{Resolver: protocompile.WithStandardImports(&protocompile.SourceResolver{ImportPaths: dirs, Accessor: open})}
	files, err := c.Compile(context.Background(), filepath.Base(path))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Dir(path), err)
	}
	f := &File{path: path}
	f.add(files[0].Messages())
	return f, nil
}

func openDescriptors(path string, text []byte) (*File, error) {
	set := &descriptorpb.FileDescriptorSet{}
	if proto.Unmarshal(text, set) != nil || len(set.File) == 0 {
		return nil, fmt.Errorf("%s: want a .proto file, or descriptors as protoc --descriptor_set_out writes them", path)
	}
	files, err := layout.ProtobufFiles(set)
	if err != nil {
		fix := ""
		if strings.Contains(err.Error(), "could not resolve import") {
			fix = "; make it with protoc --include_imports"
		}
		return nil, fmt.Errorf("%s: %s%s", path, layout.ProtobufError(err), fix)
	}
	f := &File{path: path}
	files.RangeFiles(func(file protoreflect.FileDescriptor) bool {
		f.add(file.Messages())
		return true
	})
	slices.SortFunc(f.messages, func(a, b protoreflect.MessageDescriptor) int {
		return strings.Compare(string(a.FullName()), string(b.FullName()))
	})
	return f, nil
}

// add adds messages and those declared in them.
func (f *File) add(list protoreflect.MessageDescriptors) {
	for i := range list.Len() {
		if m := list.Get(i); !m.IsMapEntry() {
			f.messages = append(f.messages, m)
			f.add(m.Messages())
		}
	}
}

// Messages returns the messages of the file, in the order of the file.
func (f *File) Messages() (list []Message) {
	for _, m := range f.messages {
		list = append(list, Message{string(m.FullName()), filepath.Base(m.ParentFile().Path())})
	}
	return list
}

// Layout returns the layout of a message. The package, or its beginning, may be omitted from the name if only one message then has the
// name. The error wraps fs.ErrNotExist if the file has no such message.
func (f *File) Layout(name string) (*layout.Layout, error) {
	var found []protoreflect.MessageDescriptor
	for _, m := range f.messages {
		switch full := string(m.FullName()); {
		case full == name:
			return f.layout(m)
		case strings.HasSuffix(full, "."+name):
			found = append(found, m)
		}
	}
	switch len(found) {
	case 0:
		return nil, fmt.Errorf("%s: message %s: %w", f.path, strconv.QuoteToASCII(name), fs.ErrNotExist)
	case 1:
		return f.layout(found[0])
	}
	return nil, fmt.Errorf("%s: message %s: both %s and %s have this name; write the package", f.path, name, found[0].FullName(), found[1].FullName())
}

func (f *File) layout(m protoreflect.MessageDescriptor) (*layout.Layout, error) {
	l, err := layout.OfMessage(m)
	if err != nil {
		return nil, fmt.Errorf("%s: message %s: %w", f.path, m.FullName(), err)
	}
	return l, nil
}
