package scenario

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"parsimon/schema/tree"
	"parsimon/schema/units"
	"parsimon/stages/topology"
)

// A field is a value in a YAML file with the key it stands under, so that every error can name the
// file, the line and the key.
type field struct {
	file  string
	key   string // from the top: workload.services[1].sigma; empty for the whole file
	value *tree.Value
}

// A FieldError says what is wrong with one key of a scenario file.
type FieldError struct {
	File string
	Line int
	Key  string
	Err  error
}

func (e *FieldError) Error() string {
	if e.Key == "" {
		return fmt.Sprintf("%s:%d: %v", e.File, e.Line, e.Err)
	}
	return fmt.Sprintf("%s:%d: %s: %v", e.File, e.Line, e.Key, e.Err)
}

// Unwrap is the reason.
func (e *FieldError) Unwrap() error { return e.Err }

func (f field) fail(err error) error {
	var inner *FieldError
	if errors.As(err, &inner) {
		return err
	}
	return &FieldError{f.file, f.value.Line, f.key, err}
}

func (f field) failf(format string, args ...any) error { return f.fail(fmt.Errorf(format, args...)) }

// parseYAML reads a file of one document, a mapping.
func parseYAML(file string, data []byte) (field, error) {
	if len(data) > 1<<20 {
		return field{}, &FieldError{file, 1, "", errors.New("a scenario file of more than 1 MiB")}
	}
	value, bad := tree.YAML(data)
	if bad != nil {
		return field{}, &FieldError{file, bad.Line, "", bad}
	}
	return field{file: file, value: value}, nil
}

// object reads each key's value with its reader. A key without a reader and a repeated key are errors.
func (f field) object(keys map[string]func(field) error) error {
	if !f.is(tree.Object) {
		return f.failf("is %s, want keys and values", f.describe())
	}
	seen := map[string]bool{}
	for _, name := range f.value.Keys {
		value, read := f.of(name), keys[name]
		switch {
		case read == nil:
			return value.failf("is no key here (%s)", strings.Join(slices.Sorted(maps.Keys(keys)), ", "))
		case seen[name]:
			return value.failf("stands there twice")
		}
		seen[name] = true
		if err := read(value); err != nil {
			return value.fail(err)
		}
	}
	return nil
}

// of is a key's value; its value is nil if the field lacks the key.
func (f field) of(key string) field {
	out := field{file: f.file, key: strings.TrimPrefix(f.key+"."+key, ".")}
	if i := slices.Index(f.value.Keys, key); i >= 0 {
		out.value = f.value.Items[i]
	}
	return out
}

// is reports whether the value is of a kind, and written without anchors and tags.
func (f field) is(kinds ...tree.Kind) bool {
	return f.value.Mark == "" && slices.Contains(kinds, f.value.Kind)
}

// list is the values of a sequence.
func (f field) list() ([]field, error) {
	if !f.is(tree.List) {
		return nil, f.failf("is %s, want a list", f.describe())
	}
	var out []field
	for i, v := range f.value.Items {
		out = append(out, field{f.file, fmt.Sprintf("%s[%d]", f.key, i), v})
	}
	return out, nil
}

// text is a scalar as it is written.
func (f field) text() (string, error) {
	if !f.is(tree.String, tree.Number, tree.Bool) {
		return "", f.failf("is %s, want a single value", f.describe())
	}
	return f.value.Text, nil
}

func (f field) describe() string {
	switch {
	case f.value.Mark != "":
		return f.value.Mark + ", which scenario files do without"
	case f.value.Kind == tree.Null:
		return "empty"
	case f.value.Kind == tree.Object:
		return "keys and values"
	case f.value.Kind == tree.List:
		return "a list"
	}
	return "a single value"
}

// The readers of single values store what they read in to.

func readText(to *string) func(field) error {
	return func(f field) (err error) {
		*to, err = f.text()
		return err
	}
}

func readBool(to *bool) func(field) error {
	return func(f field) error {
		v, err := strconv.ParseBool(f.value.Text)
		if err != nil || !f.is(tree.Bool) {
			return f.failf("want true or false")
		}
		*to = v
		return nil
	}
}

func readParsed[T any](to *T, parse func(string) (T, error)) func(field) error {
	return func(f field) error {
		text, err := f.text()
		if err != nil {
			return err
		}
		if !f.value.IsFinite() {
			return f.failf("is %s, which is not a finite number", text)
		}
		v, err := parse(text)
		if err != nil {
			return f.fail(err)
		}
		*to = v
		return nil
	}
}

// readQuantity reads a number with a unit that must be lo to hi, in the base unit.
func readQuantity(to *int64, of []units.Unit, lo, hi int64) func(field) error {
	return readBounded(to, func(text string) (int64, error) { return units.Parse(text, of) }, lo, hi, units.Base(of))
}

// readSpeed reads a bandwidth that must be lo to hi, in bps.
func readSpeed(to *int64, lo, hi int64) func(field) error {
	return readBounded(to, topology.ParseSpeed, lo, hi, "bps")
}

// readBounded reads a value that must be lo to hi, in the base unit.
func readBounded(to *int64, parse func(string) (int64, error), lo, hi int64, base string) func(field) error {
	return readParsed(to, func(text string) (int64, error) {
		v, err := parse(text)
		if err == nil && (v < lo || v > hi) {
			err = fmt.Errorf("is %s, must be %d to %d %s", text, lo, hi, base)
		}
		return v, err
	})
}

func readInt(to *int, lo, hi int) func(field) error {
	return readParsed(to, func(text string) (int, error) {
		v, err := strconv.Atoi(text)
		if err != nil {
			return 0, fmt.Errorf("is %q, want a whole number", text)
		}
		if v < lo || v > hi {
			return 0, fmt.Errorf("is %d, must be %d to %d", v, lo, hi)
		}
		return v, nil
	})
}

// readFloat reads a number (or a share with %, where allowed) that the check accepts.
func readFloat(to *float64, percent bool, want string, ok func(float64) bool) func(field) error {
	return readParsed(to, func(text string) (float64, error) {
		if !percent && strings.HasSuffix(text, "%") {
			return 0, fmt.Errorf("is %s, must be %s", text, want)
		}
		v, err := units.ParseShare(text)
		if err == nil && !ok(v) {
			err = fmt.Errorf("is %s, must be %s", text, want)
		}
		return v, err
	})
}
