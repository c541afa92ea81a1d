package localach

import "testing"

func TestLargestFrame(t *testing.T) {
	ch, err := tempDir(t).Create("c", CreateConfig{Geometry: Geometry{FrameCount: 4, FrameSize: 100}})
	if err != nil {
		t.Fatal(err)
	}
	defer ch.Close()
	w := ch.Writer()
	defer w.Close()
	if got := ch.LargestFrame(); got != 0 {
		t.Errorf("an empty channel: got %d, want 0", got)
	}
	for _, step := range []struct{ put, want int }{{10, 10}, {250, 250}, {20, 250}, {30, 250}, {40, 250}, {50, 50}} {
		if _, err := w.Put(make([]byte, step.put)); err != nil {
			t.Fatal(err)
		}
		if got := ch.LargestFrame(); got != step.want {
			t.Errorf("after a frame of %d bytes: got %d, want %d", step.put, got, step.want)
		}
	}
}
