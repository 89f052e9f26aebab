package format

import (
	"errors"
	"iter"

	"parsimon/schema/tree"
	"parsimon/stages/topology"
)

// document parses a file; a nil value is one that cannot be parsed, which is a fault.
func (d *draft) document(file string, parse func(file string, data []byte) (tree.Field, error)) tree.Field {
	top, err := parse(file, d.content(file))
	d.take(err)
	return top
}

// take makes faults of the errors of fields, and reports whether there is none.
func (d *draft) take(err error) bool {
	var several interface{ Unwrap() []error }
	var bad *tree.FieldError
	switch {
	case err == nil:
		return true
	case errors.As(err, &several):
		for _, one := range several.Unwrap() {
			d.take(one)
		}
	case errors.As(err, &bad):
		d.fault(place{bad.File, bad.Line, bad.Key}, topology.FaultFormat, "%v", bad.Err)
	}
	return false
}

func (d *draft) bad(f tree.Field, format string, args ...any) { d.take(f.Failf(format, args...)) }

func placeOf(f tree.Field) place { return place{f.File, f.Value.Line, f.Key} }

// lineOf is the place of a field whose key says nothing.
func lineOf(f tree.Field) place { return place{file: f.File, line: f.Value.Line} }

// list returns the items of a list; none where the value is missing.
func (d *draft) list(f tree.Field) []tree.Field {
	if f.Value == nil || f.Value.Kind == tree.Null {
		return nil
	}
	list, err := f.List()
	d.take(err)
	return list
}

// members iterates over the keys of an object and their values; none where it is missing. A repeated key is a fault.
func (d *draft) members(f tree.Field) iter.Seq2[string, tree.Field] {
	return func(yield func(string, tree.Field) bool) {
		if f.Value == nil {
			return
		}
		if f.Value.Kind != tree.Object {
			d.bad(f, "is %s, want an object", f.Value)
		}
		seen := map[string]bool{}
		for i, key := range f.Value.Keys {
			item := tree.Field{File: f.File, Key: f.Key + "." + key, Value: f.Value.Items[i]}
			if seen[key] {
				d.bad(item, "stands there twice")
			}
			seen[key] = true
			if !yield(key, item) {
				return
			}
		}
	}
}

// topLevelKeys returns the keys of a JSON or YAML object, without their values; nil where the file is none.
func (s *source) topLevelKeys(file string) []string {
	parse := tree.YAML
	if extension(file) == ".json" {
		parse = func(file string, data []byte) (tree.Field, error) {
			return tree.JSONOf(file, data, func(string) bool { return false })
		}
	}
	top, err := parse(file, s.content(file))
	if err != nil {
		return nil
	}
	return top.Value.Keys
}
