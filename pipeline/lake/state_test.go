package lake

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

type value struct {
	Name  string `json:"name"`
	Count int64  `json:"count"`
}

// A state file can be read if its JSON was reformatted, but not if one of its bytes was changed.
func TestStateDigest(t *testing.T) {
	l := openLake(t)
	s := lock(t, l, at)
	path := at.StatePath("value.json")
	if found, err := l.ReadState(path, new(value)); found || err != nil {
		t.Errorf("before it is written: %v, %v", found, err)
	}
	for _, write := range []func(string, any) error{s.WriteState, s.WriteStateDurably} {
		want := value{"a <b> ß", 1 << 60}
		if err := write(path, want); err != nil {
			t.Fatal(err)
		}
		var got value
		if found, err := l.ReadState(path, &got); !found || err != nil || got != want {
			t.Errorf("%+v, %v, %v", got, found, err)
		}
		change(t, l, path, func(data []byte) []byte {
			return bytes.ReplaceAll(data, []byte("\n"), []byte(" \n\t"))
		})
		if found, err := l.ReadState(path, &got); !found || err != nil || got != want {
			t.Errorf("laid out otherwise: %+v, %v, %v", got, found, err)
		}
	}
	good, err := os.ReadFile(filepath.Join(l.Path(), path))
	if err != nil {
		t.Fatal(err)
	}
	damaged := map[string][]byte{
		"a digit":      bytes.Replace(good, []byte("1152921504606846976"), []byte("1152921504606846977"), 1),
		"a key":        bytes.Replace(good, []byte(`"count"`), []byte(`"amount"`), 1),
		"the digest":   bytes.Replace(good, []byte(`"xxh3": "`), []byte(`"xxh3": "0`), 1),
		"no digest":    []byte(`{"state": {"name": "a"}}`),
		"an object":    []byte(`{}`),
		"not JSON":     []byte(`{"xxh3"`),
		"cut short":    good[:len(good)/2],
		"empty":        nil,
		"more than it": append(bytes.Clone(good), good...),
	}
	for what, data := range damaged {
		change(t, l, path, func([]byte) []byte { return data })
		if _, err := l.ReadState(path, new(value)); err == nil || !strings.Contains(err.Error(), path) ||
			!strings.Contains(err.Error(), "damaged state file") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := s.RemoveState(path); err != nil {
		t.Fatal(err)
	}
	if found, err := l.ReadState(path, new(value)); found || err != nil {
		t.Errorf("removed: %v, %v", found, err)
	}
}
