package debuginfo

import (
	"bytes"
	"compress/zlib"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// compressedZeros returns a zlib stream of size zeros, without the checksum at its end. All blocks after the first have the same bytes.
func compressedZeros(t *testing.T, size int) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := zlib.NewWriterLevel(&out, zlib.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	const block = 1 << 20
	first := 0
	for range 2 {
		first = out.Len()
		if _, err := w.Write(make([]byte, block)); err != nil {
			t.Fatal(err)
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	again := bytes.Clone(out.Bytes()[first:])
	for size -= 2 * block; size > 0; size -= block {
		out.Write(again)
	}
	return out.Bytes()
}

// elfOf writes an ELF object with the given sections and returns its path. Sections in sizes are marked compressed (SHF_COMPRESSED)
// with that size.
func elfOf(t *testing.T, sections map[string][]byte, sizes map[string]uint64) string {
	t.Helper()
	names, body := "\x00", []byte(nil)
	list := []elf.Section64{{}}
	const headerSize = 64
	add := func(name string, kind elf.SectionType, flags elf.SectionFlag, data []byte) {
		list = append(list, elf.Section64{Name: uint32(len(names)), Type: uint32(kind), Flags: uint64(flags), Off: uint64(headerSize + len(body)), Size: uint64(len(data)), Addralign: 1})
		names += name + "\x00"
		body = append(body, data...)
	}
	for name, data := range sections {
		if size, isCompressed := sizes[name]; isCompressed {
			var head bytes.Buffer
			if err := binary.Write(&head, binary.LittleEndian, elf.Chdr64{Type: uint32(elf.COMPRESS_ZLIB), Size: size, Addralign: 1}); err != nil {
				t.Fatal(err)
			}
			add(name, elf.SHT_PROGBITS, elf.SHF_COMPRESSED, append(head.Bytes(), data...))
		} else {
			add(name, elf.SHT_PROGBITS, 0, data)
		}
	}
	names += ".shstrtab\x00"
	list = append(list, elf.Section64{Name: uint32(len(names) - len(".shstrtab\x00")), Type: uint32(elf.SHT_STRTAB), Off: uint64(headerSize + len(body)), Size: uint64(len(names)), Addralign: 1})
	body = append(body, names...)
	header := elf.Header64{
		Ident: [elf.EI_NIDENT]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)}, Type: uint16(elf.ET_REL), Machine: uint16(elf.EM_X86_64),
		Version: uint32(elf.EV_CURRENT), Shoff: uint64(headerSize + len(body)), Ehsize: headerSize, Shentsize: 64, Shnum: uint16(len(list)), Shstrndx: uint16(len(list) - 1),
	}
	var out bytes.Buffer
	for _, part := range []any{header, body, list} {
		if err := binary.Write(&out, binary.LittleEndian, part); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(t.TempDir(), "packed")
	if err := os.WriteFile(path, out.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// A small file may have compressed sections that are larger than the machine's memory after decompression.
func TestOpenBoundsUnpackedSections(t *testing.T) {
	const half = 600 << 20
	zeros := compressedZeros(t, half)
	old := append([]byte("ZLIB"), binary.BigEndian.AppendUint64(nil, 1<<33)...)
	for name, path := range map[string]string{
		"two sections": elfOf(t, map[string][]byte{".debug_info": zeros, ".debug_str": zeros}, map[string]uint64{".debug_info": half, ".debug_str": half}),
		"old form":     elfOf(t, map[string][]byte{".zdebug_info": append(old, zeros[:1<<10]...)}, nil),
		"a link":       elfOf(t, map[string][]byte{".gnu_debuglink": zeros}, map[string]uint64{".gnu_debuglink": 1 << 40}),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := Open(path)
		runtime.ReadMemStats(&after)
		if err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), fmt.Sprintf("%d MiB", maxUnpacked>>20)) {
			t.Errorf("%s: got %v, want an error with the file and the limit", name, err)
		}
		if taken := after.TotalAlloc - before.TotalAlloc; taken > 16<<20 {
			t.Errorf("%s: got %d MiB of memory allocated", name, taken>>20)
		}
	}
}
