package tree_test

import (
	"fmt"
	"testing"

	"parsimon/schema/tree"
)

// Both formats give the same values with the lines of their own.
func Example() {
	yaml, _ := tree.YAML([]byte("name: a\nports:\n  - 1\n  - up: true\n"))
	json, _ := tree.JSON([]byte("{\"name\": \"a\",\n \"ports\": [1,\n  {\"up\": true}]}"))
	for _, t := range []*tree.Value{yaml, json} {
		up := t.Get("ports").Items[1].Get("UP")
		fmt.Println(t.Get("name"), t.Get("ports"), up, up.Line, t.Get("none").Scalar() == "")
	}
	// Output:
	// "a" a list true 4 true
	// "a" a list true 3 true
}

// What cannot be parsed is an error with its line.
func TestErrors(t *testing.T) {
	for text, want := range map[string]string{
		"":             "1: is empty",
		"{\"a\": 1,\n": "2: not readable as JSON: the file ends too early",
		"[1]\n[2]":     "2: content after the end of the document",
	} {
		if _, err := tree.JSON([]byte(text)); err == nil || fmt.Sprintf("%d: %v", err.Line, err) != want {
			t.Errorf("%q: %v", text, err)
		}
	}
	if _, err := tree.YAML([]byte("a: 1\n---\nb: 2\n")); err == nil || err.Line != 3 {
		t.Errorf("two documents: %v", err)
	}
}
