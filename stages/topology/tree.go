package topology

import (
	"fmt"
	"strconv"
	"strings"
)

// A treeKind is the type of a value in a JSON or YAML document.
type treeKind uint8

const (
	treeNull treeKind = iota
	treeString
	treeNumber
	treeBool
	treeList
	treeObject
	treeSkipped // an object or list that the reader did not ask for
)

// A tree is a JSON or YAML value with the line it starts at.
type tree struct {
	kind  treeKind
	line  int
	text  string   // of a scalar, as written
	keys  []string // of an object, one per item
	items []*tree  // of an object or a list
}

const maxTreeDepth = 100

// get returns the value of an object's key; nil where the key is missing or null. Upper and lower
// case of keys do not matter.
func (t *tree) get(key string) *tree {
	if t == nil || t.kind != treeObject {
		return nil
	}
	for i, k := range t.keys {
		if strings.EqualFold(k, key) && t.items[i].kind != treeNull {
			return t.items[i]
		}
	}
	return nil
}

func (t *tree) String() string {
	switch t.kind {
	case treeString:
		return strconv.Quote(t.text)
	case treeNumber, treeBool:
		return t.text
	case treeList:
		return "a list"
	case treeObject, treeSkipped:
		return "an object"
	}
	return "null"
}

// A treeReader reads typed values out of a document and collects what is wrong as faults.
type treeReader struct {
	*draft
	file string
}

func (r *treeReader) place(t *tree, path string) place { return place{r.file, t.line, path} }

func (r *treeReader) bad(t *tree, path, format string, args ...any) {
	r.fault(r.place(t, path), FaultFormat, format, args...)
}

// object reports whether a value is an object. Every key that is not among the allowed ones is a
// fault, unless none is given.
func (r *treeReader) object(t *tree, path string, allowed ...string) bool {
	if t.kind != treeObject {
		r.bad(t, path, "is %s, want an object", t)
		return false
	}
	seen := make(map[string]bool, len(t.keys))
	for i, k := range t.keys {
		k = strings.ToLower(k)
		if seen[k] {
			r.bad(t.items[i], path, "key %q occurs twice", t.keys[i])
		}
		seen[k] = true
		if len(allowed) == 0 {
			continue
		}
		known := false
		for _, a := range allowed {
			known = known || k == a
		}
		if !known {
			r.bad(t.items[i], path, "unknown key %q (%s)", t.keys[i], strings.Join(allowed, ", "))
		}
	}
	return true
}

// list returns the items of a list; none where the value is missing.
func (r *treeReader) list(t *tree, path string) []*tree {
	if t == nil || t.kind == treeNull {
		return nil
	}
	if t.kind != treeList {
		r.bad(t, path, "is %s, want a list", t)
		return nil
	}
	return t.items
}

// text returns a string or another scalar as it is written.
func (r *treeReader) text(t *tree, path string) (string, bool) {
	if t.kind != treeString && t.kind != treeNumber && t.kind != treeBool {
		r.bad(t, path, "is %s, want a string", t)
		return "", false
	}
	return t.text, true
}

// integer returns a whole number of 32 or 64 bits. A missing value is no fault and not ok.
func (r *treeReader) integer(t *tree, path string, bits int) (v int64, ok bool) {
	if t == nil {
		return 0, false
	}
	if t.kind == treeNumber {
		v, err := strconv.ParseInt(t.text, 10, bits)
		if err == nil {
			return v, true
		}
	}
	r.bad(t, path, "is %s, want a whole number of %d bits", t, bits)
	return 0, false
}

// syntaxFault is the fault of a document that cannot be parsed.
func syntaxFault(file string, line int, format string, args ...any) *Fault {
	return &Fault{File: file, Line: line, Text: fmt.Sprintf(format, args...), Kind: FaultFormat}
}
