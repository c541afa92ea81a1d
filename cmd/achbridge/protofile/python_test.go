package protofile

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"achbridge/bridge/layout"
	"achbridge/testnet/need"
)

// python is a program that makes frames of a message. If stdin has frames, it decodes and encodes these instead.
const python = `
import json, random, struct, sys
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
pool = descriptor_pool.DescriptorPool()
files = descriptor_pb2.FileDescriptorSet.FromString(open(sys.argv[1], 'rb').read())
for f in files.file:
    pool.Add(f) if hasattr(pool, 'Add') else pool.AddSerializedFile(f.SerializeToString())
descriptor = pool.FindMessageTypeByName(sys.argv[2])
kind = message_factory.GetMessageClass(descriptor) if hasattr(message_factory, 'GetMessageClass') else message_factory.MessageFactory(pool).GetPrototype(descriptor)

def is_map(f):
    return f.message_type is not None and f.message_type.GetOptions().map_entry

def single(f):
    edges = {f.CPPTYPE_INT32: [0, -1, 2**31-1, -2**31, random.randrange(-1000, 1000)], f.CPPTYPE_INT64: [0, -1, 2**63-1, -2**63, random.randrange(-10**12, 10**12)],
        f.CPPTYPE_UINT32: [0, 2**32-1, random.randrange(1000)], f.CPPTYPE_UINT64: [0, 2**64-1, random.randrange(10**15)],
        f.CPPTYPE_DOUBLE: [0.0, -0.0, 1e300, float('inf'), float('nan'), random.gauss(0, 1)], f.CPPTYPE_FLOAT: [0.0, 0.5, float('-inf'), struct.unpack('<f', struct.pack('<f', random.gauss(0, 1)))[0]],
        f.CPPTYPE_BOOL: [False, True], f.CPPTYPE_STRING: [b'\x00\xff' * random.randrange(5)] if f.type == f.TYPE_BYTES else ['', 'krang', 'a\x00b', '\u00fc\u4e2d']}
    if f.cpp_type == f.CPPTYPE_ENUM:
        return random.choice([v.number for v in f.enum_type.values])
    return random.choice(edges[f.cpp_type])

def fill(m, depth):
    for f in m.DESCRIPTOR.fields:
        if f.label != f.LABEL_REQUIRED and random.random() < 0.4:
            continue
        if is_map(f):
            for _ in range(random.randrange(4)):
                key, value = single(f.message_type.fields_by_name['key']), f.message_type.fields_by_name['value']
                if value.message_type is None:
                    getattr(m, f.name)[key] = single(value)
                else:
                    fill(getattr(m, f.name)[key], depth + 1)
        elif f.message_type is not None and depth < 3:
            if f.label == f.LABEL_REPEATED:
                for _ in range(random.randrange(4)):
                    fill(getattr(m, f.name).add(), depth + 1)
            else:
                getattr(m, f.name).SetInParent()
                fill(getattr(m, f.name), depth + 1)
        elif f.message_type is None and f.label == f.LABEL_REPEATED:
            getattr(m, f.name).extend([single(f) for _ in range(random.randrange(4))])
        elif f.message_type is None:
            setattr(m, f.name, single(f))

def flat(out, path, f, v):
    if f.message_type is not None:
        fields(out, path + '.', v)
    elif f.cpp_type == f.CPPTYPE_ENUM:
        out[path] = f.enum_type.values_by_number[v].name
    elif isinstance(v, bool):
        out[path] = 'true' if v else 'false'
    elif isinstance(v, float):
        out[path] = 'nan' if v != v else struct.pack('>d', v).hex()
    elif isinstance(v, bytes):
        out[path] = v.hex()
    else:
        out[path] = str(v)

def fields(out, path, m):
    for f in m.DESCRIPTOR.fields:
        v = getattr(m, f.name)
        if is_map(f):
            for i, key in enumerate(sorted(v, key=lambda k: k.encode() if isinstance(k, str) else k)):
                flat(out, '%s%s[%d].key' % (path, f.name, i), f.message_type.fields_by_name['key'], key)
                flat(out, '%s%s[%d].value' % (path, f.name, i), f.message_type.fields_by_name['value'], v[key])
        elif f.label == f.LABEL_REPEATED:
            for i, e in enumerate(v):
                flat(out, '%s%s[%d]' % (path, f.name, i), f, e)
        elif not (f.message_type is not None or f.file.syntax == 'proto2' or f.containing_oneof) or m.HasField(f.name):
            flat(out, path + f.name, f, v)

given = json.load(sys.stdin)
answers = []
random.seed(1)
for frame in given or [None] * 200:
    m = kind()
    fill(m, 0) if frame is None else m.ParseFromString(bytes.fromhex(frame))
    values = {}
    fields(values, '', m)
    answers.append({'frame': m.SerializeToString(deterministic=True).hex(), 'values': values})
json.dump(answers, sys.stdout)
`

// answer is a frame in hexadecimal, with the values that Python decodes from it.
type answer struct {
	Frame  string            `json:"frame"`
	Values map[string]string `json:"values"`
}

// ask runs the program python for a message in a file of descriptors.
func ask(t *testing.T, descriptors, message string, frames []string) (answers []answer) {
	t.Helper()
	if out, err := exec.Command("/usr/bin/python3", "-c", "import google.protobuf").CombinedOutput(); err != nil {
		need.Missing(t, fmt.Sprintf("protobuf for Python: apt-get install python3-protobuf: %v: %s", err, out))
	}
	in, err := json.Marshal(frames)
	if err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	cmd := exec.Command("/usr/bin/python3", "-c", python, descriptors, message)
	cmd.Stdin, cmd.Stderr = bytes.NewReader(in), &said
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("python3: %v\n%s", err, said.String())
	}
	if err := json.Unmarshal(out, &answers); err != nil {
		t.Fatal(err)
	}
	return answers
}

// flattened adds the values that a frame has to all, by their paths.
func flattened(all map[string]string, path string, v layout.Value) {
	if n, ok := v.Len(); ok {
		for i := range n {
			flattened(all, fmt.Sprintf("%s[%d]", path, i), v.At(i))
		}
		return
	}
	number, isNumber := v.Number()
	switch f := v.Field(); {
	case v.IsAbsent():
	case f.Type == layout.Struct:
		for i := range f.Fields {
			flattened(all, strings.TrimPrefix(path+"."+f.Fields[i].Name, "."), v.Member(i))
		}
	case isNumber && math.IsNaN(number):
		all[path] = "nan"
	case f.Type == layout.Float || f.Type == layout.Double:
		all[path] = fmt.Sprintf("%016x", math.Float64bits(number))
	default:
		all[path] = v.Text()
	}
}

// protoc writes the descriptors of testdata and returns their path.
func protoc(t *testing.T, options ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "robot.desc")
	args := append([]string{"--proto_path=testdata", "--descriptor_set_out=" + path, "testdata/robot/state.proto"}, options...)
	if out, err := exec.Command(need.Program(t, "protoc", "protobuf-compiler"), args...).CombinedOutput(); err != nil {
		t.Fatalf("protoc: %v\n%s", err, out)
	}
	return path
}

func TestFramesOfPythonHaveTheSameValues(t *testing.T) {
	descriptors := protoc(t, "--include_imports")
	frames := ask(t, descriptors, "robot.State", nil)
	for _, path := range []string{"testdata/robot/state.proto", descriptors} {
		f, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		l, err := f.Layout("State")
		if err != nil {
			t.Fatal(err)
		}
		seen := map[string]bool{}
		var all []string
		for _, a := range frames {
			frame, err := hex.DecodeString(a.Frame)
			if err != nil {
				t.Fatal(err)
			}
			v, err := l.Decode(frame)
			if err != nil {
				t.Fatalf("%s: %v", a.Frame, err)
			}
			got := map[string]string{}
			flattened(got, "", v)
			for name, want := range a.Values {
				if got[name] != want {
					t.Errorf("%s: %s: got %q, want %q", a.Frame, name, got[name], want)
				}
				seen[strings.TrimRight(name, "[]0123456789")] = true
			}
			if len(got) != len(a.Values) {
				t.Errorf("%s: got %v, want %v", a.Frame, got, a.Values)
			}
			all = append(all, a.Frame)
		}
		if len(frames) != 200 || len(seen) < 40 {
			t.Errorf("got %d frames with %d fields, want more", len(frames), len(seen))
		}

		// Python decodes and encodes the frames with the trimmed descriptors, and no byte differs.
		trimmed := filepath.Join(t.TempDir(), "trimmed")
		if err := os.WriteFile(trimmed, l.Descriptors, 0o600); err != nil {
			t.Fatal(err)
		}
		for i, a := range ask(t, trimmed, l.Name, all) {
			if a.Frame != frames[i].Frame {
				t.Errorf("frame %d: got %s, want %s", i, a.Frame, frames[i].Frame)
			}
		}
	}
}

func TestForeignFilesAreRefused(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for path, want := range map[string]string{
		write("a.proto", "message M {"):                                           "a.proto:1:12: syntax error",
		write("b.proto", "syntax = \"proto3\"; import \"none.proto\";"):           "none.proto",
		write("c.proto", "syntax = \"proto3\"; message M { X x = 1; }"):           "unknown type X",
		write("d.proto", strings.Repeat("/", maxFile+1)):                          "larger than 4 MiB",
		write("e.proto", "syntax = \"proto3\"; import \"e.proto\"; message M {}"): "cycle found in imports",
		write("text", "hello"):                                                    "want a .proto file",
		write("empty", ""):                                                        "want a .proto file",
		protoc(t):                                                                 "make it with protoc --include_imports",
		filepath.Join(dir, "none"):                                                "no such file",
	} {
		if _, err := Open(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", path, err, want)
		}
	}
	var fields strings.Builder
	for i := range 4097 {
		fmt.Fprintf(&fields, " bool b%d = %d;", i, i+1)
	}
	f, err := Open(write("names.proto", `syntax = "proto3"; package p; message A { message M {} } message B { message M {} message N {} } message Large {`+fields.String()+"}"))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"None": "does not exist", "M": "both p.A.M and p.B.M have this name", "B.M": "", "p.A.M": "", "N": "", "Large": "message p.Large: "} {
		if _, err := f.Layout(name); want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: got %v, want %q", name, err, want)
		}
	}
}
