package values

import (
	"strings"
	"testing"
	"time"

	"achbridge/bridge/layout"
)

// imuOrArm returns a layout whose frames have the field x of an imu, or the field joints of an arm.
func imuOrArm() *layout.Layout {
	kind := layout.Field{Name: "kind", Type: layout.Uint8}
	return &layout.Layout{Name: "imu|arm", By: "kind", Variants: []layout.Variant{
		{Value: 1, Layout: layout.Layout{Name: "imu", Size: 2, Fields: []layout.Field{kind, {Name: "x", Type: layout.Int8, Offset: 1}}}},
		{Value: 2, Layout: layout.Layout{Name: "arm", Size: 3, Fields: []layout.Field{kind, {Name: "joints", Type: layout.Int8, Offset: 1, Count: []int{2}}}}},
	}}
}

func TestFramesShowTheirVariant(t *testing.T) {
	for _, c := range []struct {
		form   Form
		fields []string
		want   string
	}{
		{Lines, nil, "2 bytes  imu\nkind:  1\nx:     -1\n--- 00:00:00.000000  3 bytes  arm\nkind:    2\njoints:  [3, 4]\n"},
		{Lines, []string{"joints[1]"}, "2 bytes  imu\njoints[1]:  -\n--- 00:00:00.000000  3 bytes  arm\njoints[1]:  4\n"},
		{CSV, nil, "%time,kind,x,joints[0],joints[1]\n0001-01-01T00:00:00Z,1,-1,,\n0001-01-01T00:00:00Z,2,,3,4\n"},
		{CSV, []string{"joints", "x"}, "%time,joints[0],joints[1],x\n0001-01-01T00:00:00Z,,,-1\n0001-01-01T00:00:00Z,3,4,\n"},
		{JSON, nil, `"type":"imu","values":{"kind":1,"x":-1}}` + "\n" + `{"time":"0001-01-01T00:00:00Z","type":"arm","values":{"kind":2,"joints":[3,4]}}` + "\n"},
		{JSON, []string{"joints"}, `"type":"imu","values":{"joints":[null,null]}}` + "\n" + `{"time":"0001-01-01T00:00:00Z","type":"arm","values":{"joints":[3,4]}}` + "\n"},
	} {
		p := Printer{Layout: imuOrArm(), Form: c.form, Fields: c.fields}
		var got strings.Builder
		for _, frame := range []string{"\x01\xff", "\x02\x03\x04"} {
			text, err := p.Frame(time.Time{}, []byte(frame))
			if err != nil {
				t.Fatal(err)
			}
			got.Write(text)
		}
		if !strings.HasSuffix(got.String(), c.want) {
			t.Errorf("%v %v: got\n%swant\n%s", c.form, c.fields, got.String(), c.want)
		}
	}
	numbers, err := Numbers(imuOrArm(), []byte("\x01\xff"), []string{"joints", "x"})
	if err != nil || len(numbers) != 1 || numbers[0].X != -1 {
		t.Errorf("numbers: got %v, %v, want x", numbers, err)
	}
	if _, err := (&Printer{Layout: imuOrArm(), Fields: []string{"none"}}).Frame(time.Time{}, []byte("\x01\xff")); err == nil || !strings.Contains(err.Error(), "imu has no none") {
		t.Errorf("got %v, want the missing field", err)
	}
}
