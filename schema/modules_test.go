package schema

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The modules of the tree use the same version of each dependency. Otherwise, packages of other versions and
// all packages that import them are compiled once for each module, which takes minutes without a build cache.
func TestModulesUseTheSameVersions(t *testing.T) {
	files, err := filepath.Glob("../pipeline/cmd/*/go.mod")
	if err != nil || len(files) < 2 {
		t.Fatalf("modules %v, %v", files, err)
	}
	type use struct{ version, file string }
	used := map[string]use{}
	for _, file := range append(files, "../go.mod") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			fields := strings.Fields(strings.TrimPrefix(line, "require "))
			if len(fields) < 2 || !strings.HasPrefix(fields[1], "v") {
				continue
			}
			before, ok := used[fields[0]]
			if ok && before.version != fields[1] {
				t.Errorf("%s is %s in %s and %s in %s", fields[0], before.version, before.file, fields[1], file)
			}
			used[fields[0]] = use{fields[1], file}
		}
	}
	if len(used) < 50 {
		t.Errorf("only %d dependencies were read", len(used))
	}
}
