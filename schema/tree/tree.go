// Package tree parses JSON and YAML documents into values with their line numbers (Value), and reads the
// values into typed variables (Field). Errors name the file, the line and the key. CSV reads files of
// comma-separated values.
package tree

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"
	"go.yaml.in/yaml/v4/plugin/loaderlimits"
)

// A Kind is the type of a value.
type Kind uint8

// The kinds of values.
const (
	Null Kind = iota
	String
	Number
	Bool
	List
	Object
	Skipped // a value that the reader does not need
)

// A Value is a value of a document.
type Value struct {
	Kind  Kind
	Line  int      // from 1; for a value in a YAML object, the line of its key
	Text  string   // text of a scalar, as written
	Keys  []string // keys of an object, one for each item
	Items []*Value // values of an object or a list
	Mark  string   // "an anchor or alias" or "tagged" if the value is written with one, or empty
}

const maxDepth = 100

// Get returns the value of an object's key, or nil if the key is missing or its value is null. Keys are
// compared without regard to case.
func (t *Value) Get(key string) *Value {
	if t == nil || t.Kind != Object {
		return nil
	}
	for i, k := range t.Keys {
		if strings.EqualFold(k, key) && t.Items[i].Kind != Null {
			return t.Items[i]
		}
	}
	return nil
}

// Scalar returns the text of a value, which is empty if the value is missing or is not a scalar.
func (t *Value) Scalar() string {
	if t == nil {
		return ""
	}
	return t.Text
}

// IsFinite reports whether the value is not YAML's .inf or .nan.
func (t *Value) IsFinite() bool {
	_, err := strconv.ParseFloat(t.Text, 64)
	return err == nil || t.Kind != Number || !strings.HasPrefix(strings.TrimLeft(t.Text, "+-"), ".")
}

// String describes the value in messages.
func (t *Value) String() string {
	switch {
	case t.Mark != "":
		return t.Mark + ", which is not supported"
	case t.Kind == String:
		return strconv.Quote(t.Text)
	case t.Kind == Null:
		return "empty"
	case t.Kind == List:
		return "a list"
	case t.Kind == Object || t.Kind == Skipped:
		return "an object"
	}
	return t.Text
}

func errorf(file string, line int, format string, args ...any) error {
	return &FieldError{file, line, "", fmt.Errorf(format, args...)}
}

const maxYAMLBytes = 64 << 20

var byteOrderMark = []byte("\xef\xbb\xbf")

// YAML parses a file with one YAML document. An error is a *FieldError. Anchors, aliases, merge keys and tags
// are not interpreted; readers refuse values that have them (Field.Is).
func YAML(file string, data []byte) (Field, error) {
	if len(data) > maxYAMLBytes {
		return Field{}, errorf(file, 1, "is larger than 64 MiB")
	}
	var document, second yaml.Node
	limits := loaderlimits.New(loaderlimits.DepthValue(maxDepth))
	loader, err := yaml.NewLoader(bytes.NewReader(data), yaml.WithPlugin(limits))
	if err == nil {
		err = loader.Load(&document)
	}
	if errors.Is(err, io.EOF) {
		return Field{}, errorf(file, 1, "is empty")
	}
	if err == nil {
		if err = loader.Load(&second); err == nil {
			return Field{}, errorf(file, second.Content[0].Line, "has more than one document")
		}
	}
	var bad *yaml.LoadError
	switch {
	case errors.Is(err, io.EOF):
		return Field{File: file, Value: yamlValue(document.Content[0])}, nil
	case errors.As(err, &bad):
		return Field{}, errorf(file, max(1, bad.Mark.Line), "not readable as YAML: %s", bad.Message)
	}
	return Field{}, errorf(file, 1, "not readable as YAML: %w", err)
}

// yamlValue converts one node.
func yamlValue(n *yaml.Node) *Value {
	t := &Value{Line: n.Line}
	switch n.Kind {
	case yaml.AliasNode:
		t.Kind = String
		t.Text = "*" + n.Value
		t.Mark = "an anchor or alias"
	case yaml.SequenceNode:
		t.Kind = List
		for _, item := range n.Content {
			t.Items = append(t.Items, yamlValue(item))
		}
	case yaml.MappingNode:
		t.Kind = Object
		for pair := range slices.Chunk(n.Content, 2) {
			key := yamlValue(pair[0])
			item := yamlValue(pair[1])
			item.Line = key.Line
			t.Keys = append(t.Keys, key.Text)
			t.Items = append(t.Items, item)
		}
	default:
		kinds := map[string]Kind{"!!null": Null, "!!bool": Bool, "!!int": Number, "!!float": Number}
		kind, known := kinds[n.ShortTag()]
		t.Kind = kind
		if !known {
			t.Kind = String
		}
		if t.Kind != Null {
			t.Text = n.Value
		}
	}
	if n.Style&yaml.TaggedStyle != 0 {
		t.Mark = "tagged"
	}
	if n.Anchor != "" {
		t.Mark = "an anchor or alias"
	}
	return t
}

// JSON parses a file with one JSON value. An error is a *FieldError.
func JSON(file string, data []byte) (Field, error) {
	return JSONOf(file, data, func(string) bool { return true })
}

// Unmarshal calls json.Unmarshal. Errors about values of the wrong type name the types of JSON, not those of
// Go.
func Unmarshal(data []byte, to any) error {
	err := json.Unmarshal(data, to)
	var wrong *json.UnmarshalTypeError
	if !errors.As(err, &wrong) {
		return err
	}
	want, known := jsonTypes[wrong.Type.Kind()]
	if !known {
		want = "a number"
	}
	line := 1 + bytes.Count(data[:min(int(wrong.Offset), len(data))], []byte("\n"))
	return fmt.Errorf("line %d: %s is of JSON type %s, want %s", line, cmp.Or(wrong.Field, "a value"),
		wrong.Value, want)
}

// jsonTypes has the JSON types, in words, of kinds of Go other than numbers.
var jsonTypes = map[reflect.Kind]string{
	reflect.Slice:  "a list",
	reflect.Map:    "an object",
	reflect.Struct: "an object",
	reflect.String: "a text",
	reflect.Bool:   "true or false",
}

// JSONOf parses a file as JSON does, but skips the values of the top-level object whose keys want does not
// accept.
func JSONOf(file string, data []byte, want func(key string) bool) (Field, error) {
	data = bytes.TrimPrefix(data, byteOrderMark)
	if len(bytes.TrimSpace(data)) == 0 {
		return Field{}, errorf(file, 1, "is empty")
	}
	p := jsonParser{dec: json.NewDecoder(bytes.NewReader(data)), data: data, line: 1, want: want}
	p.dec.UseNumber()
	t, err := p.value(0)
	at := p.dec.InputOffset()
	var syntax *json.SyntaxError
	switch {
	case err == nil:
		_, end := p.dec.Token()
		if errors.Is(end, io.EOF) {
			return Field{File: file, Value: t}, nil
		}
		at = p.dec.InputOffset()
		err = errors.New("content after the end of the document")
	case errors.As(err, &syntax):
		at = max(at, min(syntax.Offset, int64(len(data))))
	case errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF):
		at = int64(len(data))
		err = errors.New("the file ends too early")
	}
	p.advance(at)
	return Field{}, errorf(file, p.line, "not readable as JSON: %w", err)
}

// A jsonParser builds a tree from the tokens of encoding/json, whose offsets give the lines.
type jsonParser struct {
	dec  *json.Decoder
	data []byte
	pos  int64 // line counts the newlines before pos
	line int
	want func(key string) bool
}

// advance moves the line counter to an offset. Offsets only grow, so each byte is counted once.
func (p *jsonParser) advance(to int64) {
	to = min(to, int64(len(p.data)))
	if to > p.pos {
		p.line += bytes.Count(p.data[p.pos:to], []byte("\n"))
		p.pos = to
	}
}

// value parses the next value. The depth is limited, because the parser is recursive.
func (p *jsonParser) value(depth int) (*Value, error) {
	token, err := p.dec.Token()
	if err != nil {
		return nil, err
	}
	p.advance(p.dec.InputOffset())
	t := &Value{Line: p.line}
	switch v := token.(type) {
	case json.Delim:
		if depth > maxDepth {
			return nil, errors.New("values are nested too deeply")
		}
		t.Kind = List
		if v == '{' {
			t.Kind = Object
		}
		err = p.items(t, depth)
	case string:
		t.Kind = String
		t.Text = v
	case json.Number:
		t.Kind = Number
		t.Text = v.String()
	case bool:
		t.Kind = Bool
		t.Text = strconv.FormatBool(v)
	}
	return t, err
}

// items parses the items of a list or the members of an object. At the top level it skips the values that are
// not wanted, without memory for them.
func (p *jsonParser) items(t *Value, depth int) error {
	for p.dec.More() {
		skip := false
		if t.Kind == Object {
			token, err := p.dec.Token()
			if err != nil {
				return err
			}
			key, _ := token.(string)
			t.Keys = append(t.Keys, key)
			skip = depth == 0 && !p.want(key)
		}
		item := &Value{Kind: Skipped}
		err := error(nil)
		if skip {
			p.advance(p.dec.InputOffset())
			item.Line = p.line
			err = p.dec.Decode(new(json.RawMessage))
		} else {
			item, err = p.value(depth + 1)
		}
		if err != nil {
			return err
		}
		t.Items = append(t.Items, item)
	}
	_, err := p.dec.Token()
	return err
}

// CSV calls each with the rows of a CSV file with a header. cells has the values of the given columns, in the
// given order and without surrounding space. A column whose name ends with ? may be missing; its cells are
// then empty. Other columns, unless the last given one is *, and repeated columns are errors. Lines that
// begin with # are comments. Errors name the line.
func CSV(in io.Reader, columns []string, each func(line int, cells []string) error) error {
	text := bufio.NewReader(in)
	mark, _ := text.Peek(len(byteOrderMark)) // a shorter file has no mark
	if bytes.Equal(mark, byteOrderMark) {
		_, _ = text.Discard(len(byteOrderMark)) // it has been read
	}
	r := csv.NewReader(text)
	r.Comment = '#'
	r.TrimLeadingSpace = true
	header, err := r.Read()
	if errors.Is(err, io.EOF) {
		err = errors.New("is empty")
	}
	if err != nil {
		return err
	}
	line, _ := r.FieldPos(0)
	places, err := placesOf(header, columns)
	if err != nil {
		return fmt.Errorf("line %d: %w", line, err)
	}
	cells := make([]string, len(places))
	for {
		row, err := r.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err // with the line
		}
		for c, at := range places {
			if at >= 0 {
				cells[c] = strings.TrimSpace(row[at])
			}
		}
		line, _ := r.FieldPos(0)
		if err := each(line, cells); err != nil {
			return fmt.Errorf("line %d: %w", line, err)
		}
	}
}

// placesOf returns the index in a header of each column, or -1 for an optional column that is missing.
// columns is as in CSV.
func placesOf(header, columns []string) (places []int, err error) {
	last := len(columns) - 1
	hasOthers := columns[last] == "*"
	if hasOthers {
		columns = columns[:last]
	}
	wrong := ""
	known := 0
	for _, name := range columns {
		name, optional := strings.CutSuffix(name, "?")
		place := -1
		n := 0
		for i := range header {
			if strings.TrimSpace(header[i]) == name {
				n++
				place = i
			}
		}
		if wrong == "" && (n > 1 || n == 0 && !optional) {
			wrong = fmt.Sprintf("%d columns are named %s", n, name)
		}
		known += n
		places = append(places, place)
	}
	if wrong == "" && known < len(header) && !hasOthers {
		wrong = "it has " + strings.Join(header, ", ")
	}
	if wrong != "" {
		want := strings.ReplaceAll(strings.Join(columns, ", "), "?", " (if any)")
		return nil, fmt.Errorf("%s: want the columns %s", wrong, want)
	}
	return places, nil
}
