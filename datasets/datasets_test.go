package datasets

import (
	"errors"
	"io/fs"
	"slices"
	"testing"
)

func TestNamesRead(t *testing.T) {
	for kind, want := range map[Kind]string{Sizes: "webserver", Topologies: "small-2to1", Scenarios: "small"} {
		names := Names(kind)
		if !slices.Contains(names, want) {
			t.Errorf("%s: %v lacks %s", kind, names, want)
		}
		for _, name := range names {
			if data, err := Read(kind, name); err != nil || len(data) == 0 {
				t.Errorf("%s %s: %d bytes, %v", kind, name, len(data), err)
			}
		}
	}
	for _, name := range []string{"", "nothing", "../datasets", "small.yaml", "/etc/passwd"} {
		if _, err := Read(Scenarios, name); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("Read(%q): %v", name, err)
		}
	}
}
