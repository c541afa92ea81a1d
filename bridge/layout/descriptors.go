package layout

import (
	"errors"
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
)

// OfMessage returns the layout of frames that are protobuf messages of type m. Its descriptors have only the messages and
// enumerations that m can contain, without comments, extensions, and options that do not change the encoding. It returns an error
// if m exceeds the limits of a layout.
func OfMessage(m protoreflect.MessageDescriptor) (*Layout, error) {
	t := trimmer{used: map[protoreflect.FullName]bool{}, files: map[string]protoreflect.FileDescriptor{}}
	t.use(m)
	set := &descriptorpb.FileDescriptorSet{}
	done := map[string]bool{}
	for _, path := range slices.Sorted(maps.Keys(t.files)) {
		t.add(set, done, t.files[path])
	}
	descriptors, err := proto.MarshalOptions{Deterministic: true}.Marshal(set)
	if err != nil {
		return nil, err
	}
	l := &Layout{Name: string(m.FullName()), Descriptors: descriptors}
	if found := l.Check(); len(found) > 0 {
		return nil, errors.New(found[0].Text)
	}
	return l, nil
}

// trimmer copies the descriptors that one message needs. use marks these first, add copies them.
type trimmer struct {
	used  map[protoreflect.FullName]bool         // messages and enumerations to copy
	files map[string]protoreflect.FileDescriptor // files that declare them, by path
}

// use marks a message, and the messages and enumerations that it can contain.
func (t *trimmer) use(m protoreflect.MessageDescriptor) {
	if t.used[m.FullName()] {
		return
	}
	t.used[m.FullName()] = true
	t.files[m.ParentFile().Path()] = m.ParentFile()
	for i := range m.Fields().Len() {
		d := m.Fields().Get(i)
		if d.Message() != nil {
			t.use(d.Message())
		}
		if e := d.Enum(); e != nil {
			t.used[e.FullName()] = true
			t.files[e.ParentFile().Path()] = e.ParentFile()
		}
	}
}

// add appends a trimmed copy of file to set, after the files that it imports. done has the paths of files that set has already.
func (t *trimmer) add(set *descriptorpb.FileDescriptorSet, done map[string]bool, file protoreflect.FileDescriptor) {
	if done[file.Path()] {
		return
	}
	done[file.Path()] = true
	from := protodesc.ToFileDescriptorProto(file)
	to := &descriptorpb.FileDescriptorProto{Name: from.Name, Package: from.Package, Syntax: from.Syntax, Edition: from.Edition}
	if f := from.GetOptions().GetFeatures(); f != nil {
		to.Options = &descriptorpb.FileOptions{Features: f}
	}
	needed := map[string]bool{}
	to.MessageType, to.EnumType = t.declared(from.MessageType, from.EnumType, file.Package())
	t.imports(file.Messages(), file, needed)
	for _, path := range slices.Sorted(maps.Keys(needed)) {
		to.Dependency = append(to.Dependency, path)
		t.add(set, done, t.files[path])
	}
	set.File = append(set.File, to)
}

// imports adds to needed the paths of the other files whose types the marked messages of file use.
func (t *trimmer) imports(list protoreflect.MessageDescriptors, file protoreflect.FileDescriptor, needed map[string]bool) {
	for i := range list.Len() {
		m := list.Get(i)
		t.imports(m.Messages(), file, needed)
		if !t.used[m.FullName()] {
			continue
		}
		for j := range m.Fields().Len() {
			d := m.Fields().Get(j)
			for _, of := range []protoreflect.Descriptor{d.Message(), d.Enum()} {
				if of != nil && of.ParentFile().Path() != file.Path() {
					needed[of.ParentFile().Path()] = true
				}
			}
		}
	}
}

// declared returns trimmed copies of the messages and enumerations that a scope declares, without those that are not needed. prefix
// is the name of the scope.
func (t *trimmer) declared(messages []*descriptorpb.DescriptorProto, enums []*descriptorpb.EnumDescriptorProto, prefix protoreflect.FullName) (
	keptMessages []*descriptorpb.DescriptorProto, keptEnums []*descriptorpb.EnumDescriptorProto,
) {
	for _, m := range messages {
		if kept := t.message(m, prefix); kept != nil {
			keptMessages = append(keptMessages, kept)
		}
	}
	for _, e := range enums {
		if kept := t.enum(e, prefix); kept != nil {
			keptEnums = append(keptEnums, kept)
		}
	}
	return keptMessages, keptEnums
}

// message returns a trimmed copy of a message, or nil if neither the message nor any type declared in it is marked. prefix is the
// name of the scope that declares the message.
func (t *trimmer) message(from *descriptorpb.DescriptorProto, prefix protoreflect.FullName) *descriptorpb.DescriptorProto {
	name := prefix.Append(protoreflect.Name(from.GetName()))
	to := &descriptorpb.DescriptorProto{Name: from.Name}
	to.NestedType, to.EnumType = t.declared(from.NestedType, from.EnumType, name)
	if !t.used[name] {
		if to.NestedType == nil && to.EnumType == nil {
			return nil
		}
		return to
	}
	if o := from.GetOptions(); o.GetMapEntry() || o.GetFeatures() != nil {
		to.Options = &descriptorpb.MessageOptions{MapEntry: o.MapEntry, Features: o.Features}
	}
	for _, o := range from.OneofDecl {
		to.OneofDecl = append(to.OneofDecl, &descriptorpb.OneofDescriptorProto{Name: o.Name})
	}
	for _, f := range from.Field {
		kept := &descriptorpb.FieldDescriptorProto{
			Name: f.Name, Number: f.Number, Label: f.Label, Type: f.Type, TypeName: f.TypeName,
			DefaultValue: f.DefaultValue, OneofIndex: f.OneofIndex, Proto3Optional: f.Proto3Optional,
		}
		if o := f.GetOptions(); o != nil && (o.Packed != nil || o.Features != nil) {
			kept.Options = &descriptorpb.FieldOptions{Packed: o.Packed, Features: o.Features}
		}
		to.Field = append(to.Field, kept)
	}
	return to
}

// enum returns a trimmed copy of an enumeration, or nil if it is not marked.
func (t *trimmer) enum(from *descriptorpb.EnumDescriptorProto, prefix protoreflect.FullName) *descriptorpb.EnumDescriptorProto {
	if !t.used[prefix.Append(protoreflect.Name(from.GetName()))] {
		return nil
	}
	to := &descriptorpb.EnumDescriptorProto{Name: from.Name}
	if o := from.GetOptions(); o != nil && (o.AllowAlias != nil || o.Features != nil) {
		to.Options = &descriptorpb.EnumOptions{AllowAlias: o.AllowAlias, Features: o.Features}
	}
	for _, v := range from.Value {
		to.Value = append(to.Value, &descriptorpb.EnumValueDescriptorProto{Name: v.Name, Number: v.Number})
	}
	return to
}
