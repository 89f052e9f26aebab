package datasets

import (
	"errors"
	"io/fs"
	"slices"
	"testing"
)

func TestNamesRead(t *testing.T) {
	for kind, want := range map[Kind][]string{Sizes: {"webserver"}, Topologies: {"small-2to1", "parking-lot"},
		Scenarios: {"small", "accuracy/calm"}} {
		names := Names(kind)
		for _, w := range want {
			if !slices.Contains(names, w) {
				t.Errorf("%s: %v lacks %s", kind, names, w)
			}
		}
		for _, name := range names {
			if data, err := Read(kind, name); err != nil || len(data) == 0 {
				t.Errorf("%s %s: %d bytes, %v", kind, name, len(data), err)
			}
		}
	}
	for _, name := range []string{"", "nothing", "../datasets", "small.yaml", "/etc/passwd", "accuracy",
		"accuracy/", "accuracy/../small"} {
		if _, err := Read(Scenarios, name); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("Read(%q): %v", name, err)
		}
	}
}
