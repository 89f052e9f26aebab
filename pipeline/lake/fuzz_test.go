package lake

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zeebo/xxh3"

	"parsimon/schema"
)

// FuzzManifest reads arbitrary text as a sealed manifest. The result is either an error that names the file,
// or a manifest of the place whose files are all below the place.
func FuzzManifest(f *testing.F) {
	f.Add([]byte(fmt.Sprintf(
		`{"schema_version":%d,"scenario":"0123456789abcdef","files":[{"path":"nodes/scenario=0123456789abcdef/part-00000.parquet","rows":1}]}`, schema.Version)), true)
	f.Add([]byte(`{"scenario":"../../x","files":[{"path":"/etc/passwd"}]}`), true)
	f.Add([]byte(`{"files":[{"path":"nodes/scenario=0123456789abcdef/part-*/../../x"}]}`), true)
	f.Add([]byte("{\"xxh3\":\"\",\"state\":null}\n"), false)
	f.Fuzz(func(t *testing.T, state []byte, sealed bool) {
		l, err := Open(t.TempDir(), false)
		if err != nil {
			t.Fatal(err)
		}
		p := Of("0123456789abcdef")
		text := state
		if digest, err := sealOf(state); sealed && err == nil {
			text = fmt.Appendf(nil, `{"xxh3":%q,"state":%s}`, digest, state)
		}
		file := filepath.Join(l.Path(), p.StatePath(manifestFile))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, text, 0o644); err != nil {
			t.Fatal(err)
		}
		m, found, err := l.ReadManifest(p)
		if err != nil {
			if !strings.Contains(err.Error(), file) {
				t.Errorf("%v does not name the file", err)
			}
			return
		}
		if !found || m.Place != p {
			t.Errorf("%v, of %v", found, m.Place)
		}
		for _, d := range m.Files {
			if table, err := d.Table(); err != nil || filepath.Dir(d.Path) != p.Dir(table) ||
				!filepath.IsLocal(d.Path) {
				t.Errorf("file %q, %v", d.Path, err)
			}
			_ = l.Check(d) // must not crash
		}
	})
}

// FuzzState reads arbitrary bytes as a state file. The result is either an error, or the state whose digest
// the file contains.
func FuzzState(f *testing.F) {
	f.Add([]byte(`{"xxh3":"0","state":{"a":1}}`))
	f.Add(fmt.Appendf(nil, `{"xxh3":"%016x","state":[1]}`, xxh3.HashString("[1]")))
	f.Fuzz(func(t *testing.T, data []byte) {
		l, err := Open(t.TempDir(), false)
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(l.Path(), "state.json")
		if err := os.WriteFile(file, data, 0o644); err != nil {
			t.Fatal(err)
		}
		var v any
		if found, err := l.ReadState("state.json", &v); err == nil && !found ||
			err != nil && !strings.Contains(err.Error(), file) {
			t.Errorf("found %v, %v", found, err)
		}
	})
}
