// Package tree parses JSON and YAML documents into values with the lines at which they stand (Value), and reads them
// into typed variables (Field), for readers that name the file, the line and the key of everything that is wrong.
package tree

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
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
	switch t.Kind {
	case String:
		return strconv.Quote(t.Text)
	case Number, Bool:
		return t.Text
	case List:
		return "a list"
	case Object, Skipped:
		return "an object"
	}
	return "null"
}

// An Error says why a document cannot be parsed.
type Error struct {
	Line int
	Text string
}

func (e *Error) Error() string { return e.Text }

func errorf(line int, format string, args ...any) *Error {
	return &Error{line, fmt.Sprintf(format, args...)}
}

const maxYAMLBytes = 64 << 20

var byteOrderMark = []byte("\xef\xbb\xbf")

// YAML parses a file of one YAML document. Anchors and aliases are resolved; merge keys and
// tags are not interpreted.
func YAML(data []byte) (t *Value, fault *Error) {
	// The parser has panicked on malformed files; to the user that is a malformed file.
	defer func() {
		if p := recover(); p != nil {
			t, fault = nil, errorf(1, "not readable as YAML: %v", p)
		}
	}()
	if len(data) > maxYAMLBytes {
		return nil, errorf(1, "is larger than 64 MiB")
	}
	tokens := lexer.Tokenize(string(bytes.TrimPrefix(data, byteOrderMark)))
	if line := deepLine(tokens); line > 0 {
		return nil, errorf(line, "values are nested too deeply")
	}
	parsed, err := parser.Parse(tokens, 0)
	if err != nil {
		line, what := 1, err.Error()
		var syntax yaml.Error
		if errors.As(err, &syntax) {
			if k := syntax.GetToken(); k != nil && k.Position != nil {
				line = k.Position.Line
			}
			what = syntax.GetMessage()
		}
		return nil, errorf(line, "not readable as YAML: %s", what)
	}
	if len(parsed.Docs) == 0 || parsed.Docs[0].Body == nil {
		return nil, errorf(1, "is empty")
	}
	if len(parsed.Docs) > 1 {
		return nil, errorf(lineOf(parsed.Docs[1].Body, 1), "holds more than one document")
	}
	y := yamlParser{anchors: map[string]*Value{}}
	t = y.value(parsed.Docs[0].Body, 1, 0)
	if y.deep {
		return nil, errorf(1, "values are nested too deeply")
	}
	return t, nil
}

// deepLine returns the line where brackets, indents, or the indicators of one line nest deeper than maxDepth; 0 where
// none do. The parser's time and memory grow with the square of the depth.
func deepLine(tokens token.Tokens) int {
	brackets, indicators, line := 0, 0, 0
	var indents []int // columns of the lines that the current one is in
	for _, k := range tokens {
		if k.Position.Line != line {
			line, indicators = k.Position.Line, 0
			for len(indents) > 0 && indents[len(indents)-1] >= k.Position.Column {
				indents = indents[:len(indents)-1]
			}
			indents = append(indents, k.Position.Column)
		}
		indicators++
		switch k.Type {
		case token.SequenceStartType, token.MappingStartType:
			brackets++
			indicators = 0
		case token.SequenceEndType, token.MappingEndType:
			brackets--
			indicators = 0
		case token.SequenceEntryType, token.MappingKeyType, token.TagType, token.AnchorType:
		default:
			if k.PreviousType() != token.AnchorType { // else it is the anchor's name
				indicators = 0
			}
		}
		if max(brackets, indicators, len(indents)) > maxDepth {
			return line
		}
	}
	return 0
}

// lineOf returns the line of a node; some nodes of malformed files have no token.
func lineOf(n ast.Node, otherwise int) int {
	if n != nil {
		if t := n.GetToken(); t != nil && t.Position != nil && t.Position.Line > 0 {
			return t.Position.Line
		}
	}
	return otherwise
}

// A yamlParser converts the syntax tree of goccy/go-yaml, which keeps lines, to a tree. An alias must
// follow its anchor, so values cannot contain themselves.
type yamlParser struct {
	anchors map[string]*Value // values are shared between an anchor and its aliases, never copied
	deep    bool
}

// value converts one node. Nodes of no known type become null.
func (y *yamlParser) value(n ast.Node, line, depth int) *Value {
	line = lineOf(n, line)
	t := &Value{Line: line}
	if depth > maxDepth {
		y.deep = true
		return t
	}
	switch v := n.(type) {
	case *ast.MappingNode:
		t.Kind = Object
		for _, m := range v.Values {
			y.member(t, m, line, depth)
		}
	case *ast.MappingValueNode:
		t.Kind = Object
		y.member(t, v, line, depth)
	case *ast.SequenceNode:
		t.Kind = List
		for _, item := range v.Values {
			t.Items = append(t.Items, y.value(item, line, depth+1))
		}
	case *ast.AnchorNode:
		t = y.value(v.Value, line, depth+1)
		t.Mark = "an anchor or alias"
		if v.Name != nil {
			y.anchors[v.Name.String()] = t
		}
	case *ast.AliasNode:
		t.Mark = "an anchor or alias"
		if v.Value != nil && y.anchors[v.Value.String()] != nil {
			return y.anchors[v.Value.String()]
		}
	case *ast.TagNode:
		t = y.value(v.Value, line, depth+1)
		t.Mark = "tagged"
	case *ast.StringNode:
		t.Kind, t.Text = String, v.Value
	case *ast.LiteralNode:
		t.Kind = String
		if v.Value != nil {
			t.Text = v.Value.Value
		}
	case *ast.BoolNode:
		t.Kind, t.Text = Bool, tokenText(n)
	case *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		t.Kind, t.Text = Number, tokenText(n)
	}
	return t
}

// member adds a key and its value.
func (y *yamlParser) member(t *Value, m *ast.MappingValueNode, line, depth int) {
	key := y.value(m.Key, lineOf(m.Key, line), depth+1)
	item := y.value(m.Value, key.Line, depth+1)
	item.Line = key.Line // a mapping's own token is a colon further down
	t.Keys, t.Items = append(t.Keys, key.Text), append(t.Items, item)
}

func tokenText(n ast.Node) string {
	if t := n.GetToken(); t != nil {
		return t.Value
	}
	return ""
}

// JSON parses one JSON value.
func JSON(data []byte) (*Value, *Error) { return JSONOf(data, func(string) bool { return true }) }

// JSONOf is JSON that parses of a top-level object only the values whose keys want accepts; the others are Skipped.
func JSONOf(data []byte, want func(key string) bool) (*Value, *Error) {
	data = bytes.TrimPrefix(data, byteOrderMark)
	if len(bytes.TrimSpace(data)) == 0 {
		return nil, errorf(1, "is empty")
	}
	p := jsonParser{dec: json.NewDecoder(bytes.NewReader(data)), data: data, line: 1, want: want}
	p.dec.UseNumber()
	t, err := p.value(0)
	if err == nil {
		if _, end := p.dec.Token(); !errors.Is(end, io.EOF) {
			p.advance(p.dec.InputOffset())
			return nil, errorf(p.line, "content after the end of the document")
		}
		return t, nil
	}
	at := p.dec.InputOffset()
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &syntax):
		at = max(at, min(syntax.Offset, int64(len(data))))
	case errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF):
		at, err = int64(len(data)), errors.New("the file ends too early")
	}
	p.advance(at)
	return nil, errorf(p.line, "not readable as JSON: %v", err)
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
