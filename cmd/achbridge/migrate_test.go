package main_test

import (
	"path/filepath"
	"testing"
)

func TestCheckAcceptsOutputOfMigrate(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("migrate/testdata/*.golden")
	if err != nil || len(files) < 12 {
		t.Fatalf("got %d files, %v, want twelve", len(files), err)
	}
	dir := memory(t)
	for _, file := range files {
		path, err := filepath.Abs(file)
		if err != nil {
			t.Fatal(err)
		}
		if out, code := run(t, dir, "check", path); code != 0 {
			t.Errorf("check %s: exit code %d\n%s", file, code, out)
		}
	}
}
