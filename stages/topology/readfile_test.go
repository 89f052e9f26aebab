package topology

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Devices, which may never end, and files that are too large are errors. Other files are read completely.
func TestReadFile(t *testing.T) {
	if _, err := ReadFile("/dev/zero"); err == nil || !strings.Contains(err.Error(), "/dev/zero: a device") {
		t.Errorf("a device: %v", err)
	}
	file := filepath.Join(t.TempDir(), "x")
	if err := os.WriteFile(file, []byte("text"), 0o644); err != nil {
		t.Fatal(err)
	}
	if data, err := ReadFile(file); string(data) != "text" || err != nil {
		t.Errorf("%q, %v", data, err)
	}
}
