package ingest

import (
	"slices"
	"strings"
	"testing"
)

// The rows of nested lists have the values of the objects around them. Each leaf is a row, in the order of
// the file, whether the file is an object, a list or lines.
func TestLeavesOfNestedLists(t *testing.T) {
	for name, c := range map[string]struct {
		each, text string
		want       []string
	}{
		"values": {"a.b", `{"x":1,"a":[{"y":"2","b":["l","m"]},{"b":["n"]}],"z":3}`,
			[]string{`{"value":"l","x":1,"y":"2"}`, `{"value":"m","x":1,"y":"2"}`, `{"value":"n","x":1}`}},
		"objects": {"a.b.c", `{"a":[{"x":1,"b":{"x":2,"y":null,"c":[{"x":3},{"l":[1]}]}}]}`,
			[]string{`{"x":3,"y":null}`, `{"x":2,"y":null}`}},
		"large numbers and letters": {"a", `{"a":[{"n":12345678901234567890,"t":"<é>"}]}`,
			[]string{`{"n":12345678901234567890,"t":"<é>"}`}},
		"the first path that leads to a leaf": {"a.b | a.c",
			`{"a":[{"b":[1],"c":[2]},{"c":[3]},{"b":[],"c":4},{"d":5}]}`,
			[]string{`{"value":1}`, `{"value":3}`, `{"c":4,"value":4}`}},
		"values that are no lists": {"a.b.c",
			`{"a":[{"b":1},{"b":null},{"b":[null,2,{"c":3}]},{"b":{"c":{"d":4}}}]}`,
			[]string{`{"c":3,"value":3}`, `{"d":4}`}},
		"a list": {"a.b", ` [{"b":[1]}, {"b":[2],"x":0}] `, []string{`{"value":1}`,
			`{"value":2,"x":0}`}},
		"lines": {"a.b", "{\"b\":[1]}\n{\"y\":1,\"a\":[{\"b\":[2]}]}\n\n{\"b\":[3]}",
			[]string{`{"value":1}`, `{"value":2,"y":1}`, `{"value":3}`}},
		"lists of one object": {"a.b | c.d", `{"a":[{"b":[1]}],"x":1,"c":[{"d":[2]}]}`, []string{`{"value":1}`,
			`{"value":2,"x":1}`}},
		"null":          {"a.b", `{"x":1,"a":[null,{"b":[1]}]}`, []string{`{"value":1,"x":1}`}},
		"empty lists":   {"a.b", `{"a":[]}`, nil},
		"an empty text": {"a.b", " \n", nil},
	} {
		_, rows, _, err := stage(t, mappingOf(t, "reads: json; column: v = $.value; each: "+c.each), c.text)
		var want []string
		for i, line := range c.want {
			want = append(want, string(rune('1'+i))+" ["+line+"] 0")
		}
		if err != nil || !slices.Equal(rows, want) {
			t.Errorf("%s: %v\n%s\nwant\n%s", name, err, strings.Join(rows, "\n"), strings.Join(want, "\n"))
		}
	}
}

// A file of nested lists that is cut short, or has something else than lists and objects, is an error that
// names the place. Otherwise, rows would be lost silently.
func TestNestedListsThatAreDamaged(t *testing.T) {
	for text, want := range map[string]string{
		`{"a":[{"b":[1]}`:                      "the list is cut short: byte 15: unexpected EOF",
		`{"a":[{"b":[1]},`:                     "element 2 of the list, byte 16: unexpected EOF",
		`{"a":[{"b":[1]},{"b":`:                "element 2 of the list, byte ",
		`{"a":[{"b":[1]}]`:                     "byte 16: unexpected EOF",
		`{"a":[{"b":[1]}],"x"`:                 "byte 20: unexpected EOF",
		`{"x":1,`:                              "unexpected EOF",
		`{"a":`:                                "key a: want a list",
		`{"a":{"b":[1]}}`:                      "byte 6: key a: want a list",
		`{"a":[1]}`:                            "element 1 of the list, byte ",
		`{"a":[{"b":[1]}]} 7`:                  "byte 19: want a JSON object, got 7",
		`[{"b":[1]}`:                           "the list is cut short: byte 10: unexpected EOF",
		`[{"b":[1]}] {}`:                       "the file continues after the JSON list, from byte 13",
		`[{"b":[1]},x]`:                        "element 2 of the list, byte ",
		`x`:                                    "invalid character 'x'",
		`{"a":[` + strings.Repeat(" ", 17<<20): "the list is cut short: byte 6: longer than 16 MiB",
	} {
		_, rows, _, err := stage(t, mappingOf(t, "reads: json; column: v = $.value; each: a.b"), text)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40s: %d rows, %v, want %q", text, len(rows), err, want)
		}
	}
}

// Paths are keys with points between them. An empty key is an error.
func TestPathsOfNestedLists(t *testing.T) {
	got, err := parseEach(" a.b | c")
	if err != nil || len(got) != 2 || !slices.Equal(got[0], []string{"a", "b"}) || !slices.Equal(got[1],
		[]string{"c"}) {
		t.Errorf("%q, %v", got, err)
	}
	for _, text := range []string{"", "a.", ".a", "a..b", "a|"} {
		got, err := parseEach(text)
		if err == nil {
			t.Errorf("%q: %q", text, got)
		}
	}
}
