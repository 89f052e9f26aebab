package tree_test

import (
	"fmt"
	"strings"
	"testing"

	"parsimon/schema/tree"
)

// Both formats give the same values, with the lines of their text.
func Example() {
	yaml, _ := tree.YAML("a.yaml", []byte("name: a\nports:\n  - 1\n  - up: true\n"))
	json, _ := tree.JSON("a.json", []byte("{\"name\": \"a\",\n \"ports\": [1,\n  {\"up\": true}]}"))
	for _, t := range []*tree.Value{yaml.Value, json.Value} {
		up := t.Get("ports").Items[1].Get("UP")
		fmt.Println(t.Get("name"), t.Get("ports"), up, up.Line, t.Get("none").Scalar() == "")
	}
	// Output:
	// "a" a list true 4 true
	// "a" a list true 3 true
}

// A syntax error names its line.
func TestErrors(t *testing.T) {
	for text, want := range map[string]string{
		"":             "f:1: is empty",
		"{\"a\": 1,\n": "f:2: not readable as JSON: the file ends too early",
		"[1]\n[2]":     "f:2: not readable as JSON: content after the end of the document",
	} {
		if _, err := tree.JSON("f", []byte(text)); err == nil || err.Error() != want {
			t.Errorf("%q: %v", text, err)
		}
	}
	for _, text := range []string{"a:\n  " + strings.Repeat("[", 200_000), strings.Repeat("- ", 200_000),
		strings.Repeat("? ", 200_000) + "a", "a: " + strings.Repeat("!t ", 20_000) + "a",
		"a: " + strings.Repeat("&b ", 2_000) + "a"} {
		at := fmt.Sprintf("f:%d: ", 1+strings.Count(text, "\n"))
		if _, err := tree.YAML("f", []byte(text)); err == nil || !strings.HasPrefix(err.Error(), at) ||
			!strings.Contains(err.Error(), "exceeded max depth") && !strings.Contains(err.Error(), "expected key") {
			t.Errorf("%.10q: %v", text, err)
		}
	}
	long := "a:\n" + strings.Repeat("-\n", 1000) + "b: [" + strings.Repeat("!t &a b, ", 1000) + "]"
	if _, err := tree.YAML("f", []byte(long)); err != nil {
		t.Errorf("long lists: %v", err)
	}
	if _, err := tree.YAML("f", []byte("a: 1\n---\nb: 2\n")); err == nil ||
		!strings.HasPrefix(err.Error(), "f:3: ") {
		t.Errorf("two documents: %v", err)
	}
}

// The time to read many repeated and unknown keys must not grow with the square of their number.
func TestManyKeys(t *testing.T) {
	var text strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&text, "\"k%d\": 1, ", i)
	}
	top, bad := tree.JSON("many.json",
		[]byte("{"+text.String()+strings.Repeat("\"a\": 1, ", 20_000)+"\"A\": 1}"))
	var a, reads int
	err := top.Object(tree.Keys{"a": func(f tree.Field) error { reads++; return tree.ReadInt(&a, 0, 1)(f) }})
	if bad != nil || err == nil || reads != 1 || strings.Count(err.Error(), "is given twice") != 20_000 {
		t.Errorf("%d reads, %v", reads, bad)
	}
}

// Errors about values of the wrong type name the types of JSON.
func TestUnmarshal(t *testing.T) {
	var to map[string]struct{ Hops []int }
	for text, want := range map[string]string{"[1]": "line 1: a value is of JSON type array, want an object",
		"{\n\"a\": {\"Hops\": \"x\"}}":     "line 2: Hops is of JSON type string, want a list",
		"{\"a\": {\"Hops\": [\n\n\"x\"]}}": "want a number"} {
		if err := tree.Unmarshal([]byte(text), &to); err == nil || !strings.Contains(err.Error(), want) ||
			strings.Contains(err.Error(), "Go") {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
