package ros1msg_test

import (
	"slices"
	"strings"
	"testing"

	"achbridge/bridge/layout"
	"achbridge/cmd/achbridge/ros1msg"
)

func TestROSSchemaOfUnsupportedTypes(t *testing.T) {
	vec := []layout.Field{{Name: "x", Type: layout.Float, Unit: "rad/s"}, {Name: "y", Offset: 8, Type: layout.Float}}
	l := layout.Layout{Name: "imu msg", Size: 120, Fields: []layout.Field{
		{Name: "text", Offset: 8, Type: layout.Char, Count: []int{2, 4}},
		{Name: "stamp", Type: layout.Uint32, Unit: "ns", Scale: 1000},
		{Name: "gyro", Offset: 16, Type: layout.Struct, Size: 12, Fields: vec},
		{Name: "matrix", Offset: 28, Type: layout.Int16, Count: []int{2, 3}},
		{Name: "mode", Offset: 40, Type: layout.Uint8, Words: []layout.Word{{Value: 0, Name: "IDLE"}, {Value: 2, Name: "run fast"}, {Value: 300, Name: "never"}}},
		{Name: "before", Offset: 41, Type: layout.Uint8, Words: []layout.Word{{Value: 0, Name: "IDLE"}}},
		{Name: "error", Offset: 56, Type: layout.Int32, Bits: 3},
		{Name: "tries", Offset: 56, Type: layout.Uint32, Bit: 3, Bits: 11},
		{Name: "either", Offset: 64, Type: layout.Int32, Union: true},
		{Name: "wide", Offset: 80, Type: layout.Bytes, Size: 16},
		{Name: "a-b", Offset: 96, Type: layout.Double},
		{Name: "a_b", Offset: 104, Type: layout.Pointer},
		{Name: "2nd", Offset: 112, Type: layout.Bool, Count: []int{8}},
	}}
	if p := l.Check(); p != nil {
		t.Fatal(p)
	}
	s, err := ros1msg.Of(&l)
	if err != nil {
		t.Fatal(err)
	}
	want := `uint32 stamp  # times 1000, ns
uint8[4] padding_4
uint8[8] text  # text, 2 x 4
achbridge/imu_msg_gyro gyro
int16[6] matrix  # 2 x 3
uint8 IDLE=0
uint8 run_fast=2
uint8 mode
uint8 before_IDLE=0
uint8 before
uint8[14] padding_42
uint8[2] bits_56  # bits: error 3, tries 11
uint8[6] padding_58
uint8[4] either  # union
uint8[12] padding_68
uint8[16] wide
float64 a_b_2
uint64 a_b  # pointer
bool[8] x2nd
` + strings.Repeat("=", 80) + `
MSG: achbridge/imu_msg_gyro
float32 x  # rad/s
uint8[4] padding_4
float32 y
`
	if s.Name != "achbridge/imu_msg" || s.Text != want {
		t.Errorf("got %s\n%s\nwant\n%s", s.Name, s.Text, want)
	}
	renamed := []ros1msg.Renamed{{"error", "bits_56"}, {"tries", "bits_56"}, {"a-b", "a_b_2"}, {"2nd", "x2nd"}}
	if !slices.Equal(s.Renamed, renamed) {
		t.Errorf("renamed: got %v, want %v", s.Renamed, renamed)
	}
}

func TestLayoutWithTailHasNoSchema(t *testing.T) {
	l := layout.Layout{Name: "path", Size: 4, Tail: "p", Counter: "n", Fields: []layout.Field{{Name: "n", Type: layout.Int32}, {Name: "p", Offset: 4, Type: layout.Int16}}}
	if s, err := ros1msg.Of(&l); err == nil || !strings.Contains(err.Error(), "by p") {
		t.Errorf("got %+v, %v, want an error", s, err)
	}
	several := layout.Layout{Name: "any", Variants: []layout.Variant{{Layout: l}}}
	if s, err := ros1msg.Of(&several); err == nil || !strings.Contains(err.Error(), "several layouts") {
		t.Errorf("several layouts: got %+v, %v, want an error", s, err)
	}
}
