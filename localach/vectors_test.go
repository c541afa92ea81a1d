package localach

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// vectorOp is one line of a vector file: an operation on libach and its result.
type vectorOp struct {
	Op          string  `json:"op"`
	Step        int     `json:"step"`
	Name        string  `json:"name"`
	FrameCnt    int     `json:"frame_cnt"`
	FrameSize   int     `json:"frame_size"`
	Status      int     `json:"status"`
	Data        string  `json:"data"`
	Reader      int     `json:"reader"`
	Options     int     `json:"options"`
	Buffer      int     `json:"buffer"`
	SeqNum      *uint64 `json:"seq_num"`
	NextIndex   *uint64 `json:"next_index"`
	ImageLen    int     `json:"image_len"`
	ImageSHA256 string  `json:"image_sha256"`
	Image       *string `json:"image"`
	// Time limit of a get with WAIT. Nothing is put meanwhile, so its length does not matter.
	Timeout   json.RawMessage `json:"timeout"`
	TimeoutNS json.RawMessage `json:"timeout_ns"`
	TimeoutMS json.RawMessage `json:"timeout_ms"`
}

// Results of libach that our functions report in another way.
const (
	achTimeout = 7
	optWait    = 1
	optRelTime = 8
)

// player replays one vector file with our functions.
type player struct {
	dir        Dir
	options    int32 // options that are added to each get
	c          *Channel
	w          *Writer
	readers    map[int]*Reader
	ops, image int
}

func TestVectors(t *testing.T) {
	dir := os.Getenv("ACH_VECTORS")
	if dir == "" {
		dir = filepath.Join("testdata", "vectors")
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.jsonl"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no vectors: %s holds no *.jsonl (%v)", dir, err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			for name, extra := range map[string]int32{"lock-free where possible": 0, "always locked": optLocked} {
				p := &player{dir: tempDir(t), options: extra, readers: map[int]*Reader{}}
				p.play(t, file)
				t.Logf("%s: %d operations, %d images compared", name, p.ops, p.image)
				fmt.Printf("vectors %s, %s: %d operations, %d images compared\n", filepath.Base(file), name, p.ops, p.image)
			}
		})
	}
}

func (p *player) play(t *testing.T, path string) {
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	defer p.close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<30)
	for n := 1; lines.Scan(); n++ {
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		var op vectorOp
		decoder := json.NewDecoder(bytes.NewReader(lines.Bytes()))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&op); err != nil {
			t.Fatalf("line %d: %v", n, err)
		}
		if err := p.do(op); err != nil {
			t.Fatalf("line %d, %s of step %d: %v", n, op.Op, op.Step, err)
		}
		p.ops++
	}
	if err := lines.Err(); err != nil || p.ops == 0 {
		t.Fatalf("%s: %d operations, %v", path, p.ops, err)
	}
}

func (p *player) close() {
	if p.c != nil {
		p.w.Close()
		p.c.Close()
	}
}

func (p *player) do(op vectorOp) error {
	if p.c == nil && op.Op != "create" {
		return fmt.Errorf("no channel was created")
	}
	switch op.Op {
	case "create":
		if err := p.create(op); err != nil {
			return err
		}
		return p.compareImage(op)
	case "put":
		frame, err := hex.DecodeString(op.Data)
		if err != nil {
			return err
		}
		if got := p.c.m.put(&p.w.result, frame, lockLimit).code(); int(got) != op.Status {
			return fmt.Errorf("got status %d, want %d", got, op.Status)
		}
		return p.compareImage(op)
	case "get":
		return p.get(op)
	case "flush":
		r := p.reader(op.Reader)
		if got := p.c.m.flush(&r.at).code(); int(got) != op.Status {
			return fmt.Errorf("got status %d, want %d", got, op.Status)
		}
		return r.compare(op)
	}
	return fmt.Errorf("unknown operation %q", op.Op)
}

func (p *player) create(op vectorOp) error {
	p.close()
	c, err := p.dir.Create(op.Name, CreateConfig{Geometry: Geometry{op.FrameCnt, op.FrameSize}, Replace: true})
	if err != nil {
		return err
	}
	if op.Status != 0 {
		return fmt.Errorf("created, want status %d", op.Status)
	}
	p.c, p.w = c, c.Writer()
	clear(p.readers)
	return nil
}

func (p *player) reader(n int) *Reader {
	if p.readers[n] == nil {
		p.readers[n] = p.c.Reader()
	}
	return p.readers[n]
}

func (p *player) get(op vectorOp) error {
	if unknown := op.Options &^ (optWait | optLast | optCopy | optRelTime); unknown != 0 {
		return fmt.Errorf("unknown options %#x", unknown)
	}
	r := p.reader(op.Reader)
	buf := make([]byte, op.Buffer)
	var got status
	if op.Options&optWait != 0 && p.c.LastSeq() == r.Seq() {
		got = achTimeout // nothing is put while it waits
	} else {
		got = p.c.m.get(&r.at, buf, int32(op.Options&(optLast|optCopy))|p.options, -1).code()
	}
	if int(got) != op.Status {
		return fmt.Errorf("got status %d, want %d", got, op.Status)
	}
	size := 0
	if got != achTimeout {
		size = r.at.size()
	}
	if size != op.FrameSize {
		return fmt.Errorf("got frame_size %d, want %d", size, op.FrameSize)
	}
	if got != statusOK && got != statusMissed {
		size = 0
	}
	if data := hex.EncodeToString(buf[:size]); data != op.Data {
		return fmt.Errorf("got data %s, want %s", data, op.Data)
	}
	return r.compare(op)
}

func (r *Reader) compare(op vectorOp) error {
	if op.SeqNum == nil || op.NextIndex == nil {
		return fmt.Errorf("line lacks seq_num or next_index")
	}
	if r.at.seq() != *op.SeqNum || uint64(r.at.c.next_index) != *op.NextIndex {
		return fmt.Errorf("got seq_num %d, next_index %d, want %d, %d", r.at.seq(), uint64(r.at.c.next_index), *op.SeqNum, *op.NextIndex)
	}
	return nil
}

// compareImage compares the whole file except mutex and condition variable.
func (p *player) compareImage(op vectorOp) error {
	got, err := os.ReadFile(p.dir.Path(p.c.Name()))
	if err != nil {
		return err
	}
	if len(got) != op.ImageLen {
		return fmt.Errorf("got a file of %d bytes, want %d", len(got), op.ImageLen)
	}
	clear(got[216:304])
	sum := sha256.Sum256(got)
	if hex.EncodeToString(sum[:]) == op.ImageSHA256 && op.Image == nil {
		p.image++
		return nil
	}
	if op.Image == nil {
		return fmt.Errorf("got image %x, want %s", sum, op.ImageSHA256)
	}
	want, err := base64.StdEncoding.DecodeString(*op.Image)
	if err != nil {
		return err
	}
	for i := range got {
		if i >= len(want) || got[i] != want[i] {
			return fmt.Errorf("images differ from byte %d on", i)
		}
	}
	if len(want) != len(got) || hex.EncodeToString(sum[:]) != op.ImageSHA256 {
		return fmt.Errorf("got image %x of %d bytes, want %s of %d", sum, len(got), op.ImageSHA256, len(want))
	}
	p.image++
	return nil
}
