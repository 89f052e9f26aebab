package format

import (
	"slices"
	"strconv"
	"strings"

	"parsimon/schema/tree"
	"parsimon/stages/topology"
)

// A treeReader reads typed values out of a document and collects what is wrong as faults.
type treeReader struct {
	*draft
	file string
}

// tree reads the only file of a source. The value is nil where it cannot be parsed, which is a fault.
func (s *source) tree(parse func([]byte) (*tree.Value, *tree.Error)) (r treeReader, t *tree.Value, err error) {
	r = treeReader{draft: &draft{}, file: s.files[0]}
	data, err := s.read(r.file)
	if err != nil {
		return r, nil, err
	}
	value, bad := parse(data)
	return r, r.parsed(r.file, value, bad), nil
}

// parsed is the value, or nil and a fault.
func (d *draft) parsed(file string, t *tree.Value, bad *tree.Error) *tree.Value {
	if bad != nil {
		d.faults = append(d.faults, *syntaxFault(file, bad.Line, "%s", bad.Text))
		return nil
	}
	return t
}

func (r *treeReader) place(t *tree.Value, path string) place { return place{r.file, t.Line, path} }

func (r *treeReader) bad(t *tree.Value, path, format string, args ...any) {
	r.fault(r.place(t, path), topology.FaultFormat, format, args...)
}

// object reports whether a value is an object. Every key that is not among the allowed ones is a
// fault, unless none is given.
func (r *treeReader) object(t *tree.Value, path string, allowed ...string) bool {
	if t.Kind != tree.Object {
		r.bad(t, path, "is %s, want an object", t)
		return false
	}
	seen := make(map[string]bool, len(t.Keys))
	for i, k := range t.Keys {
		k = strings.ToLower(k)
		if seen[k] {
			r.bad(t.Items[i], path, "key %q occurs twice", t.Keys[i])
		}
		seen[k] = true
		if len(allowed) == 0 {
			continue
		}
		if !slices.Contains(allowed, k) {
			r.bad(t.Items[i], path, "unknown key %q (%s)", t.Keys[i], strings.Join(allowed, ", "))
		}
	}
	return true
}

// list returns the items of a list; none where the value is missing.
func (r *treeReader) list(t *tree.Value, path string) []*tree.Value {
	if t == nil || t.Kind == tree.Null {
		return nil
	}
	if t.Kind != tree.List {
		r.bad(t, path, "is %s, want a list", t)
		return nil
	}
	return t.Items
}

// text returns a string or another scalar as it is written.
func (r *treeReader) text(t *tree.Value, path string) (string, bool) {
	if t.Kind != tree.String && t.Kind != tree.Number && t.Kind != tree.Bool {
		r.bad(t, path, "is %s, want a string", t)
		return "", false
	}
	return t.Text, true
}

// integer returns a whole number of 32 or 64 bits. A missing value is no fault and not ok.
func (r *treeReader) integer(t *tree.Value, path string, bits int) (v int64, ok bool) {
	if t == nil {
		return 0, false
	}
	if t.Kind == tree.Number {
		v, err := strconv.ParseInt(t.Text, 10, bits)
		if err == nil {
			return v, true
		}
	}
	r.bad(t, path, "is %s, want a whole number of %d bits", t, bits)
	return 0, false
}

// topLevelKeys returns the keys of a JSON object, without their values; nil where the data is none.
func topLevelKeys(data []byte) []string {
	t, _ := tree.JSONOf(data, func(string) bool { return false })
	if t == nil {
		return nil
	}
	return t.Keys
}
