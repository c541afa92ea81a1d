package packaging_test

import (
	"bytes"
	"encoding/binary"
	"flag"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"achbridge/bridge/layout"
	"achbridge/bridge/stamps"
	"achbridge/cmd/achbridge/config"
	"achbridge/cmd/achbridge/debuginfo"
	"achbridge/cmd/achbridge/protofile"
	"achbridge/testnet/need"
)

var updateTypes = flag.Bool("update-types", false, "write the layouts in types/sns and types/hubo")

// snsStructs are the messages of golems/sns, and huboStructs those of hubo-ach.
const (
	snsStructs = `#include <stdint.h>
struct header { int64_t sec, dur_nsec; uint32_t nsec, n; int64_t from_pid; uint64_t seq; char from_host[8], ident[8]; };
struct quaternion { double x, y, z, w; };
struct vector3 { double x, y, z; };
struct transform { struct quaternion r; struct vector3 v; };
struct velocity { struct vector3 dv, omega; };
enum motor_mode { HALT = 1, POS = 2, VEL = 3, TORQ = 4, CUR = 5, RESET = 6, POS_OFFSET = 16 };
struct log { struct header header; int priority; char text[1]; } a;
struct vector { struct header header; double x[1]; } b;
struct matrix { struct header header; uint64_t rows, cols; double x[1]; } c;
struct tf { struct header header; struct transform tf[1]; } d;
struct wt_tf { struct header header; struct { struct transform tf; double weight; } wt_tf[1]; } e;
struct tf_dx { struct header header; struct { struct transform tf; struct velocity dx; } tf_dx[1]; } f;
struct motor_ref { struct header header; enum motor_mode mode; double u[1]; } g;
struct tag_motor_ref { struct header header; enum motor_mode mode; struct { double val; uint64_t priority; } u[1]; } h;
struct motor_state { struct header header; enum motor_mode mode; struct { double pos, vel; } X[1]; } i;
struct joystick { struct header header; uint64_t buttons; double axis[1]; } j;
`
	huboStructs = `#include <stdint.h>
#pragma pack(1)
struct imu { double a_x, a_y, a_z, w_x, w_y, w_z; };
struct ft { double m_x, m_y, f_z; };
enum comply { RIGID, COMPLIANT, COMPLIANT2RIGID, TURNING_MOTOR_ON } __attribute__((packed));
struct joint { double ref; enum comply comply; double pos, cur, vel, duty, heat, tmp; uint8_t active, zeroed; };
struct status { uint8_t driverOn, ctrlOn, mode, limitSwitch, homeFlag, jam, pwmSaturated, bigError, encError, driverFault, motorFail0, motorFail1, posMinError, posMaxError, velError, accError, tempError; };
struct driver { double temp; };
struct power { double voltage, current, power; };
struct state { struct imu imu[3]; struct ft ft[4]; struct joint joint[42]; struct status status[42]; struct driver driver[0x36]; struct power power; double time; int16_t refWait; } a;
struct ref { double ref[42]; int16_t mode[42]; int8_t comply[42]; } b;
struct enc { double enc[42]; } c;
`
)

// typesOf returns the layouts of structs in a C text, by name.
func typesOf(t *testing.T, text string, names ...string) map[string]*layout.Layout {
	t.Helper()
	source := filepath.Join(t.TempDir(), "types.c")
	if err := os.WriteFile(source, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	object := source + ".o"
	if out, err := exec.Command(need.Program(t, "gcc", "gcc"), "-g", "-c", "-o", object, source).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	p, err := debuginfo.Open(object)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]*layout.Layout{}
	for _, name := range names {
		if all[name], _, err = p.Layout(name); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

func TestPackagedLayoutsMatchTheirStructs(t *testing.T) {
	sns := typesOf(t, snsStructs, "log", "vector", "matrix", "tf", "wt_tf", "tf_dx", "motor_ref", "tag_motor_ref", "motor_state", "joystick")
	for _, l := range sns {
		l.Fields[0].Fields[slices.IndexFunc(l.Fields[0].Fields, func(f layout.Field) bool { return f.Name == "dur_nsec" })].Unit = "ns"
	}
	sns["matrix"].Counter = "cols*rows" // the matrix is stored column by column
	for dir, all := range map[string]map[string]*layout.Layout{"sns": sns, "hubo": typesOf(t, huboStructs, "state", "ref", "enc")} {
		files, _ := filepath.Glob(filepath.Join("types", dir, "*.yaml"))
		if len(files) != len(all) && !*updateTypes {
			t.Errorf("types/%s: got %d files, want %d", dir, len(files), len(all))
		}
		for name, l := range all {
			l.Name = dir + "_" + name
			path := filepath.Join("types", dir, name+".yaml")
			if *updateTypes {
				text, err := config.LayoutText(l, "Frames of "+map[string]string{"sns": "golems/sns (since 2014): sns_msg_" + name, "hubo": "hubo-ach: hubo_" + name + "_t"}[dir]+".\n")
				if err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, text, 0o666); err != nil {
					t.Fatal(err)
				}
			}
			got, err := config.LoadLayout(path)
			if err != nil {
				t.Error(err)
			} else if !got.Same(l) {
				t.Errorf("%s: not the layout of the struct (go test ./packaging -update-types rewrites it)", path)
			}
			if r := stamps.Guess(l); dir == "sns" && r != stamps.SNS {
				t.Errorf("%s: stamps %q, want sns", path, r)
			}
		}
	}
}

func TestPackagedLayoutsDecodeFrames(t *testing.T) {
	header := make([]byte, 56)
	header[20] = 2 // n
	load := func(path string) *layout.Layout {
		l, err := config.LoadLayout(path)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	double := func(x float64) []byte { return binary.LittleEndian.AppendUint64(nil, math.Float64bits(x)) }
	state := slices.Concat(header, []byte{2, 0, 0, 0, 0, 0, 0, 0}, double(1), double(2), double(3), double(4))
	v, err := load("types/sns/motor_state.yaml").Decode(state)
	if err != nil {
		t.Fatal(err)
	}
	if mode, vel := v.Member(1).Text(), v.Member(2).At(1).Member(1).Text(); mode != "POS" || vel != "4" {
		t.Errorf("motor_state: got mode %s, velocity %s", mode, vel)
	}
	text := slices.Concat(header, []byte("\x06\x00\x00\x00ok\x00\x00\x00")) // a frame has sizeof(struct) - 1 + n bytes
	if v, err = load("types/sns/log.yaml").Decode(text); err != nil || v.Member(2).Text() != "ok" {
		t.Errorf("log: got %v, %v", v, err)
	}
	hubo := bytes.Repeat([]byte{0}, 3898)
	copy(hubo[3888:], double(12.5))
	l := load("types/hubo/state.yaml")
	v, err = l.Decode(hubo)
	if i := slices.IndexFunc(l.Fields, func(f layout.Field) bool { return f.Name == "time" }); err != nil || v.Member(i).Text() != "12.5" {
		t.Errorf("hubo state: got %v", err)
	}
}

func TestPackagedMessagesOfSomaticHaveMetadata(t *testing.T) {
	f, err := protofile.Open("types/somatic.proto")
	if err != nil {
		t.Fatal(err)
	}
	stamped := 0
	for _, m := range f.Messages() {
		l, err := f.Layout(m.Name)
		if err != nil {
			t.Fatal(err)
		}
		if stamps.Guess(l) == stamps.Somatic {
			stamped++
		}
	}
	if stamped != 11 {
		t.Errorf("%d messages have the metadata, want 11", stamped)
	}
	l, err := f.Layout("motor_cmd")
	if err != nil {
		t.Fatal(err)
	}
	// Written by protobuf-c: velocities 1, 2 and 3, time 3600.000000005.
	v, err := l.Decode([]byte("\x08\x01\x12\x1a\x0a\x18\x00\x00\x00\x00\x00\x00\xf0\x3f\x00\x00\x00\x00\x00\x00\x00\x40\x00\x00\x00\x00\x00\x00\x08\x40\x7a\x07\x12\x05\x08\x90\x1c\x10\x05"))
	if err != nil || v.Member(0).Text() != "MOTOR_VELOCITY" || v.Member(1).Member(0).At(2).Text() != "3" || v.Member(3).Member(1).Member(0).Text() != "3600" {
		t.Errorf("motor_cmd: got %v", err)
	}
}
