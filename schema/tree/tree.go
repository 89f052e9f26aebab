// Package tree parses JSON and YAML documents into values with the lines at which they stand (Value), and reads them
// into typed variables (Field), for readers that name the file, the line and the key of everything that is wrong.
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
	Skipped // an object or list that the reader did not ask for
)

// A Value is a value of a document.
type Value struct {
	Kind  Kind
	Line  int      // from 1; of a value in an object of YAML, that of its key
	Text  string   // of a scalar, as written
	Keys  []string // of an object, one per item
	Items []*Value // of an object or a list
	Mark  string   // what else is written with it: "an anchor or alias", "tagged"; empty: nothing
}

const maxDepth = 100

// Get returns the value of an object's key; nil where the key is missing or null. Upper and lower
// case of keys do not matter.
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

// Scalar returns the text of a value; empty where it is missing or not a scalar.
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
		return t.Mark + ", which is not read here"
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

// YAML parses the content of a file of one YAML document; an error is a *FieldError. Anchors, aliases,
// merge keys and tags are not interpreted: a reader refuses values that have them (Field.Is).
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
			return Field{}, errorf(file, second.Content[0].Line, "holds more than one document")
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
		t.Kind, t.Text, t.Mark = String, "*"+n.Value, "an anchor or alias"
	case yaml.SequenceNode:
		t.Kind = List
		for _, item := range n.Content {
			t.Items = append(t.Items, yamlValue(item))
		}
	case yaml.MappingNode:
		t.Kind = Object
		for pair := range slices.Chunk(n.Content, 2) {
			key, item := yamlValue(pair[0]), yamlValue(pair[1])
			item.Line = key.Line
			t.Keys, t.Items = append(t.Keys, key.Text), append(t.Items, item)
		}
	default:
		kinds := map[string]Kind{"!!null": Null, "!!bool": Bool, "!!int": Number, "!!float": Number}
		kind, known := kinds[n.ShortTag()]
		if t.Kind = kind; !known {
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

// JSON parses the content of a file of one JSON value; an error is a *FieldError.
func JSON(file string, data []byte) (Field, error) {
	return JSONOf(file, data, func(string) bool { return true })
}

// Unmarshal is json.Unmarshal, whose errors about values of the wrong kind are in the words of JSON.
func Unmarshal(data []byte, to any) error {
	err := json.Unmarshal(data, to)
	if wrong := (*json.UnmarshalTypeError)(nil); errors.As(err, &wrong) {
		want := map[reflect.Kind]string{reflect.Slice: "a list", reflect.Map: "an object", reflect.Struct: "an object",
			reflect.String: "a text", reflect.Bool: "true or false"}[wrong.Type.Kind()]
		line := 1 + bytes.Count(data[:min(int(wrong.Offset), len(data))], []byte("\n"))
		return fmt.Errorf("line %d: %s is of JSON's type %s, want %s", line, cmp.Or(wrong.Field, "a value"), wrong.Value,
			cmp.Or(want, "a number"))
	}
	return err
}

// JSONOf is JSON that parses of a top-level object only the values whose keys want accepts; the others are Skipped.
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
		at, err = p.dec.InputOffset(), errors.New("content after the end of the document")
	case errors.As(err, &syntax):
		at = max(at, min(syntax.Offset, int64(len(data))))
	case errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF):
		at, err = int64(len(data)), errors.New("the file ends too early")
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

// value parses the next value. Nesting is bounded: the parser recurses.
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
		t.Kind, t.Text = String, v
	case json.Number:
		t.Kind, t.Text = Number, v.String()
	case bool:
		t.Kind, t.Text = Bool, strconv.FormatBool(v)
	}
	return t, err
}

// items parses the items of a list or the members of an object; of the top level it skips the values not wanted, which
// costs a scan but no memory.
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
		item, err := &Value{Kind: Skipped}, error(nil)
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

// CSV calls each with the rows of a CSV file that has a header: the cells of some columns, in their order, without
// space around them. A column with ? behind its name may be missing, and its cells are empty then. The last column *
// allows others, which are an error otherwise, as is a column that occurs twice. Lines that begin with # are
// comments. Errors name the line.
func CSV(in io.Reader, columns []string, each func(line int, cells []string) error) error {
	text := bufio.NewReader(in)
	if mark, _ := text.Peek(3); string(mark) == "\ufeff" {
		_, _ = text.Discard(3) // they are there
	}
	r := csv.NewReader(text)
	r.Comment, r.TrimLeadingSpace = '#', true
	header, err := r.Read()
	if errors.Is(err, io.EOF) {
		err = errors.New("is empty")
	}
	if err != nil {
		return err
	}
	others := columns[len(columns)-1] == "*"
	if others {
		columns = columns[:len(columns)-1]
	}
	line, _ := r.FieldPos(0)
	place, known := slices.Repeat([]int{-1}, len(columns)), 0
	bad := func(what string, args ...any) error {
		return fmt.Errorf("line %d: %s: want the columns %s", line, fmt.Sprintf(what, args...),
			strings.ReplaceAll(strings.Join(columns, ", "), "?", " (if any)"))
	}
	for c, name := range columns {
		name, optional := strings.CutSuffix(name, "?")
		n := 0
		for i := range header {
			if strings.TrimSpace(header[i]) == name {
				n, place[c] = n+1, i
			}
		}
		if n > 1 || n == 0 && !optional {
			return bad("%d columns are named %s", n, name)
		}
		known += n
	}
	if known < len(header) && !others {
		return bad("it has %s", strings.Join(header, ", "))
	}
	for cells := make([]string, len(columns)); ; {
		row, err := r.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err // with the line
		}
		for c, at := range place {
			if at >= 0 {
				cells[c] = strings.TrimSpace(row[at])
			}
		}
		line, _ = r.FieldPos(0)
		if err := each(line, cells); err != nil {
			return fmt.Errorf("line %d: %w", line, err)
		}
	}
}
