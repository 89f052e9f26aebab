package flatjson

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// wanted are the values of the tests. The first has two keys.
var wanted = [][]string{{"src4", "src6"}, {"bytes"}}

func read(t *testing.T, r *Reader, line string) (values []string, ok bool) {
	t.Helper()
	fields, ok := r.Read([]byte(line))
	if !ok {
		return nil, false
	}
	for _, f := range fields {
		values = append(values, string(f))
	}
	return values, true
}

// The values of keys do not depend on the order of the keys, on white space, or on other keys.
func TestValuesOfKeys(t *testing.T) {
	r := NewReader(wanted)
	for _, c := range []struct{ line, first, second string }{
		{`{"src4":"10.0.0.1","bytes":900}`, "10.0.0.1", "900"},
		{`{"bytes":900,"src6":"fd01::1"}`, "fd01::1", "900"},
		{` { "bytes" : "9" , "x" : [1, {"bytes": -2.5}, null] , "y":{}, "z":true,"w":[] } `, "", "9"},
		{`{"src4":null,"src6":"a","bytes":0}`, "a", "0"},
		{`{"src4":"","src6":"a"}`, "a", ""},
		{`{"bytes":1234567890123456789}`, "", "1234567890123456789"},
		{`{}`, "", ""},
		{`{"":"x","bytes":1}`, "", "1"},
		{`{"x":` + strings.Repeat("[", 16) + strings.Repeat("]", 16) + `,"bytes":2}`, "", "2"},
		{`{"x":` + strings.Repeat(`{"a":`, 15) + `{}` + strings.Repeat("}", 15) + `,"bytes":3}`, "", "3"},
	} {
		got, ok := read(t, r, c.line)
		if !ok || !slices.Equal(got, []string{c.first, c.second}) {
			t.Errorf("%s: %q, %v", c.line, got, ok)
		}
	}
}

// An object that other parsers may read differently, or not at all, is refused.
func TestOddObjectsAreRefused(t *testing.T) {
	r := NewReader(wanted)
	for _, line := range []string{
		``, `[]`, `{`, `{"bytes"}`, `{"bytes":}`, `{"bytes":1,}`, `{"bytes":1}}`, `{"bytes":1} x`,
		`{bytes:1}`, `{,}`,
		`{"bytes":1,"bytes":1}`, `{"x":1,"x":2}`, `{"src4":"a","src6":"b"}`,
		`{"bytes":1.0}`, `{"bytes":1e3}`, `{"bytes":-1}`, `{"bytes":01}`, `{"bytes":true}`, `{"bytes":[1]}`,
		`{"bytes":{}}`, `{"bytes":12345678901234567890}`, `{"bytes":nul}`,
		`{"x":01}`, `{"x":1.}`, `{"x":.5}`, `{"x":1e3}`, `{"x":1.5e3}`, `{"x":-}`, `{"x":tru}`, `{"x":NaN}`,
		`{"x":[1,]}`,
		`{"x":[1 2]}`, `{"x":{"y"}}`, `{"x":{"y":1}`, `{"x":{1:2}}`, `{"x":"a` + "\n" + `b"}`, `{"x":"é"}`,
		`{"x":"\u0041"}`, `{"by\u0074es":1}`, `{"x":"unfinished`, "{\"x\":1\n}",
		`{"` + strings.Repeat("k", maxKeyBytes+1) + `":1}`,
		`{"x":` + strings.Repeat("[", 17) + strings.Repeat("]", 17) + `}`,
		`{"x":` + strings.Repeat(`{"a":`, 16) + `{}` + strings.Repeat("}", 16) + `}`,
		"{\"x\":\"\x7f\"}",
	} {
		if got, ok := read(t, r, line); ok {
			t.Errorf("%s is read: %q", line, got)
		}
	}
}

// If all keys were remembered, a file with other keys in each object would fill the memory.
func TestNumberOfKeysIsBounded(t *testing.T) {
	r := NewReader(wanted)
	taken := 0
	for i := range 3 * maxKeys {
		if _, ok := read(t, r, fmt.Sprintf(`{"key%d":1,"bytes":7}`, i)); ok {
			taken++
		}
	}
	if taken != maxKeys-4 { // none, and three that are wanted
		t.Error(taken, "keys")
	}
	got, ok := read(t, r, `{"key1":1,"bytes":8}`)
	if !ok || got[1] != "8" {
		t.Error(got, ok)
	}
}

// An object that is read is valid JSON, and encoding/json reads the same values.
func FuzzReadsWhatJSONReads(f *testing.F) {
	f.Add(`{"src4":"10.0.0.1","bytes":900,"x":[1,{"y":-2.50}],"z":{"a":null}}`)
	f.Add(` { "bytes" : "9" , "src6":null } `)
	f.Add(`{"bytes":0.5}`)
	f.Fuzz(func(t *testing.T, line string) {
		got, ok := read(t, NewReader(wanted), line)
		if !ok {
			return
		}
		var object map[string]any
		d := json.NewDecoder(strings.NewReader(line))
		d.UseNumber()
		if err := d.Decode(&object); err != nil || !json.Valid([]byte(line)) {
			t.Fatalf("%q: %v", line, err)
		}
		for i, keys := range wanted {
			want := ""
			for _, k := range keys {
				v := object[k]
				if v != nil && want == "" {
					want = fmt.Sprint(v)
				}
			}
			if got[i] != want {
				t.Fatalf("%q: value %d is %q, want %q", line, i, got[i], want)
			}
		}
	})
}

func BenchmarkRead(b *testing.B) {
	r := NewReader([][]string{{"type"}, {"src_addr"}, {"dst_addr"}, {"bytes"}, {"time_flow_start_ns"}})
	line := []byte(`{"type":"IPFIX","src_addr":"10.0.0.1","dst_addr":"10.0.1.5","src_port":443,` +
		`"dst_port":50001,"proto":6,"bytes":1500,"packets":1,"time_flow_start_ns":1681583295157626000}`)
	b.SetBytes(int64(len(line)))
	for b.Loop() {
		if _, ok := r.Read(line); !ok {
			b.Fatal("refused")
		}
	}
}
