package tree

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"parsimon/schema/units"
)

// A Field is a value of a document with its key, so that errors can name the file, the line and the key.
type Field struct {
	File  string
	Key   string // complete key, such as workload.services[1].sigma; empty for the whole document
	Value *Value // nil if the key is missing
}

// A FieldError is an error of one field.
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

// Unwrap returns the reason.
func (e *FieldError) Unwrap() error { return e.Err }

// Fail returns an error about the field. It returns err itself if that already names a field or is nil.
func (f Field) Fail(err error) error {
	var inner *FieldError
	if err == nil || errors.As(err, &inner) {
		return err
	}
	return &FieldError{f.File, f.Value.Line, f.Key, err}
}

// Failf returns a new error about the field.
func (f Field) Failf(format string, args ...any) error { return f.Fail(fmt.Errorf(format, args...)) }

// Keys has a reader for each key of an object, in lower case.
type Keys map[string]func(Field) error

// Object reads the value of each key with its reader and joins the errors. Unknown and repeated keys are
// errors.
func (f Field) Object(keys Keys) error {
	if !f.Is(Object) {
		return f.Failf("is %s, want keys and values", f.Value)
	}
	var errs []error
	seen := map[string]bool{}
	for i, name := range f.Value.Keys {
		item := f.at("."+name, f.Value.Items[i])
		key := strings.ToLower(name)
		read := keys[key]
		var err error
		switch {
		case read == nil:
			err = item.Failf("is an unknown key (keys: %s)", strings.Join(slices.Sorted(maps.Keys(keys)), ", "))
		case seen[key]:
			err = item.Failf("is given twice")
		default:
			seen[key] = true
			err = read(item)
		}
		errs = append(errs, item.Fail(err))
	}
	return errors.Join(errs...)
}

func (f Field) at(key string, v *Value) Field {
	return Field{f.File, strings.TrimPrefix(f.Key+key, "."), v}
}

// Of returns the field of a key of an object, as Value.Get finds it.
func (f Field) Of(key string) Field { return f.at("."+key, f.Value.Get(key)) }

// Need returns an error for the first key that the object lacks.
func (f Field) Need(keys ...string) error {
	for _, key := range keys {
		if f.Value.Get(key) == nil {
			return f.Failf("has no %s", key)
		}
	}
	return nil
}

// Keep returns a reader that stores the field itself.
func Keep(to *Field) func(Field) error {
	return func(f Field) error {
		*to = f
		return nil
	}
}

// Is reports whether the value has one of the kinds and has no anchor, alias or tag.
func (f Field) Is(kinds ...Kind) bool {
	return f.Value.Mark == "" && slices.Contains(kinds, f.Value.Kind)
}

// List returns the values of a list.
func (f Field) List() ([]Field, error) {
	if !f.Is(List) {
		return nil, f.Failf("is %s, want a list", f.Value)
	}
	list := make([]Field, len(f.Value.Items))
	for i, v := range f.Value.Items {
		list[i] = f.at("["+strconv.Itoa(i)+"]", v)
	}
	return list, nil
}

// Each calls do with each value of a list, and joins the errors. It does nothing if the field has no value.
func (f Field) Each(do func(Field) error) error {
	if f.Value == nil {
		return nil
	}
	list, err := f.List()
	errs := []error{err}
	for _, item := range list {
		errs = append(errs, do(item))
	}
	return errors.Join(errs...)
}

// Scalar returns the text of a single value.
func (f Field) Scalar() (string, error) {
	if !f.Is(String, Number, Bool) {
		return "", f.Failf("is %s, want a single value", f.Value)
	}
	return f.Value.Text, nil
}

// ReadText returns a reader that stores the text of a single value.
func ReadText(to *string) func(Field) error { return ReadParsed(to, Verbatim) }

// ReadBool returns a reader that stores true or false.
func ReadBool(to *bool) func(Field) error {
	return func(f Field) error {
		v, err := strconv.ParseBool(f.Value.Text)
		if err != nil || !f.Is(Bool) {
			return f.Failf("want true or false")
		}
		*to = v
		return nil
	}
}

// ReadParsed returns a reader that parses a single value and stores the result.
func ReadParsed[T any](to *T, parse func(string) (T, error)) func(Field) error {
	return func(f Field) error {
		text, err := f.Scalar()
		if err != nil {
			return err
		}
		if !f.Value.IsFinite() {
			return f.Failf("is %s, which is not a finite number", text)
		}
		v, err := parse(text)
		if err != nil {
			return f.Fail(err)
		}
		*to = v
		return nil
	}
}

// ReadList returns a reader that parses each value of a list and appends the results.
func ReadList[T any](to *[]T, parse func(string) (T, error)) func(Field) error {
	return func(f Field) error {
		return f.Each(func(item Field) error {
			var v T
			err := ReadParsed(&v, parse)(item)
			*to = append(*to, v)
			return err
		})
	}
}

// Verbatim is a parser that returns the text itself.
func Verbatim(text string) (string, error) { return text, nil }

// ReadQuantity returns a reader of a number with a unit. The value, in the base unit, must be from lo to hi.
func ReadQuantity(to *int64, of []units.Unit, lo, hi int64) func(Field) error {
	return ReadBounded(to, func(text string) (int64, error) { return units.Parse(text, of) }, lo, hi,
		units.Base(of))
}

// ReadBounded returns a reader of a value that must be from lo to hi. base is the unit in errors.
func ReadBounded(to *int64, parse func(string) (int64, error), lo, hi int64, base string) func(Field) error {
	return ReadParsed(to, func(text string) (int64, error) {
		v, err := parse(text)
		if err == nil && (v < lo || v > hi) {
			err = fmt.Errorf("is %s, must be %d to %d %s", text, lo, hi, base)
		}
		return v, err
	})
}

// ReadInt returns a reader of a whole number that must be from lo to hi.
func ReadInt[T int | int32 | int64](to *T, lo, hi T) func(Field) error {
	return ReadParsed(to, func(text string) (T, error) {
		v, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("is %q, want a whole number", text)
		}
		if v < int64(lo) || v > int64(hi) {
			return 0, fmt.Errorf("is %d, must be %d to %d", v, lo, hi)
		}
		return T(v), nil
	})
}

// ReadFloat returns a reader of a number that ok accepts. want describes such numbers.
func ReadFloat(to *float64, want string, ok func(float64) bool) func(Field) error {
	return ReadParsed(to, func(text string) (float64, error) {
		if strings.HasSuffix(text, "%") {
			return 0, fmt.Errorf("is %s, must be %s", text, want)
		}
		return parseShare(text, want, ok)
	})
}

// ReadShare returns a reader of a number or a percentage that ok accepts. want describes such numbers.
func ReadShare(to *float64, want string, ok func(float64) bool) func(Field) error {
	return ReadParsed(to, func(text string) (float64, error) { return parseShare(text, want, ok) })
}

func parseShare(text, want string, ok func(float64) bool) (float64, error) {
	v, err := units.ParseShare(text)
	if err == nil && !ok(v) {
		err = fmt.Errorf("is %s, must be %s", text, want)
	}
	return v, err
}
