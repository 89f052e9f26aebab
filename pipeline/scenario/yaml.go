package scenario

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"parsimon/pipeline/units"
	"parsimon/stages/topology"
)

// A field is a value in a YAML file with the place it stands at, so that every error can name the
// file, the line and the key.
type field struct {
	file string
	key  string // from the top: workload.services[1].sigma; empty for the whole file
	line int
	node ast.Node
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
	return &FieldError{f.file, f.line, f.key, err}
}

func (f field) failf(format string, args ...any) error { return f.fail(fmt.Errorf(format, args...)) }

// parseYAML reads a file of one document, a mapping.
func parseYAML(file string, data []byte) (f field, err error) {
	// The parser has panicked on malformed files; to the user that is a malformed file.
	defer func() {
		if p := recover(); p != nil {
			err = &FieldError{file, 1, "", fmt.Errorf("not readable as YAML: %v", p)}
		}
	}()
	if len(data) > 1<<20 {
		return field{}, &FieldError{file, 1, "", errors.New("a scenario file of more than 1 MiB")}
	}
	parsed, err := parser.ParseBytes(data, 0)
	if err != nil {
		line, what := 1, err
		var syntax yaml.Error
		if errors.As(err, &syntax) {
			if t := syntax.GetToken(); t != nil && t.Position != nil {
				line = t.Position.Line
			}
			what = errors.New(syntax.GetMessage())
		}
		return field{}, &FieldError{file, line, "", what}
	}
	if len(parsed.Docs) == 0 || parsed.Docs[0].Body == nil {
		return field{}, &FieldError{file, 1, "", errors.New("is empty")}
	}
	if len(parsed.Docs) > 1 {
		return field{}, &FieldError{file, lineOf(parsed.Docs[1].Body, 1), "", errors.New("holds more than one document")}
	}
	body := parsed.Docs[0].Body
	return field{file: file, line: lineOf(body, 1), node: body}, nil
}

func lineOf(n ast.Node, otherwise int) int {
	if n != nil {
		if t := n.GetToken(); t != nil && t.Position != nil && t.Position.Line > 0 {
			return t.Position.Line
		}
	}
	return otherwise
}

// object reads each key's value with its reader. A key without a reader and a repeated key are errors.
func (f field) object(keys map[string]func(field) error) error {
	values, ok := f.pairs()
	if !ok {
		return f.failf("is %s, want keys and values", describe(f.node))
	}
	seen := map[string]bool{}
	for _, v := range values {
		name, err := (field{file: f.file, key: f.key, line: lineOf(v.Key, f.line), node: v.Key}).text()
		if err != nil {
			return err
		}
		key := name
		if f.key != "" {
			key = f.key + "." + name
		}
		value := field{file: f.file, key: key, line: lineOf(v.Key, f.line), node: v.Value}
		read, known := keys[name]
		switch {
		case !known:
			names := make([]string, 0, len(keys))
			for k := range keys {
				names = append(names, k)
			}
			slices.Sort(names)
			return value.failf("is no key here (%s)", strings.Join(names, ", "))
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

// value is a key's value, if the field has the key.
func (f field) value(key string) (field, bool) {
	values, _ := f.pairs()
	for _, v := range values {
		if name, ok := v.Key.(*ast.StringNode); ok && name.Value == key {
			return field{file: f.file, key: f.key + "." + key, line: lineOf(v.Key, f.line), node: v.Value}, true
		}
	}
	return field{}, false
}

// pairs are the keys and values of an object; ok is false for everything else.
func (f field) pairs() (values []*ast.MappingValueNode, ok bool) {
	switch n := f.node.(type) {
	case *ast.MappingNode:
		return n.Values, true
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{n}, true
	}
	return nil, false
}

// list is the values of a sequence.
func (f field) list() ([]field, error) {
	n, ok := f.node.(*ast.SequenceNode)
	if !ok {
		return nil, f.failf("is %s, want a list", describe(f.node))
	}
	var out []field
	for i, v := range n.Values {
		out = append(out, field{f.file, fmt.Sprintf("%s[%d]", f.key, i), lineOf(v, f.line), v})
	}
	return out, nil
}

// text is a scalar as it is written.
func (f field) text() (string, error) {
	switch n := f.node.(type) {
	case *ast.StringNode:
		return n.Value, nil
	case *ast.LiteralNode:
		if n.Value != nil {
			return n.Value.Value, nil
		}
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		if t := n.GetToken(); t != nil {
			return t.Value, nil
		}
	}
	return "", f.failf("is %s, want a single value", describe(f.node))
}

func describe(n ast.Node) string {
	switch n.(type) {
	case nil, *ast.NullNode:
		return "empty"
	case *ast.MappingNode, *ast.MappingValueNode:
		return "keys and values"
	case *ast.SequenceNode:
		return "a list"
	case *ast.AnchorNode, *ast.AliasNode:
		return "an anchor or alias, which scenario files do without"
	case *ast.TagNode:
		return "tagged, which scenario files do without"
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
		if n, ok := f.node.(*ast.BoolNode); ok {
			*to = n.Value
			return nil
		}
		return f.failf("want true or false")
	}
}

func readParsed[T any](to *T, parse func(string) (T, error)) func(field) error {
	return func(f field) error {
		text, err := f.text()
		if err != nil {
			return err
		}
		switch f.node.(type) {
		case *ast.InfinityNode, *ast.NanNode:
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
