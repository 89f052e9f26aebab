package format

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"parsimon/stages/topology"
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

// scalar returns the text of a value; empty where it is missing or not a scalar.
func scalar(t *tree) string {
	if t == nil {
		return ""
	}
	return t.text
}

// A treeReader reads typed values out of a document and collects what is wrong as faults.
type treeReader struct {
	*draft
	file string
}

func (r *treeReader) place(t *tree, path string) place { return place{r.file, t.line, path} }

func (r *treeReader) bad(t *tree, path, format string, args ...any) {
	r.fault(r.place(t, path), topology.FaultFormat, format, args...)
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

const maxYAMLBytes = 64 << 20

// parseYAMLTree parses a file of one YAML document. Anchors and aliases are resolved; merge keys and
// tags are not interpreted.
func parseYAMLTree(file string, data []byte) (t *tree, fault *Fault) {
	// The parser has panicked on malformed files; to the user that is a malformed file.
	defer func() {
		if p := recover(); p != nil {
			t, fault = nil, syntaxFault(file, 1, "not readable as YAML: %v", p)
		}
	}()
	if len(data) > maxYAMLBytes {
		return nil, syntaxFault(file, 1, "is larger than 64 MiB")
	}
	parsed, err := parser.ParseBytes(bytes.TrimPrefix(data, []byte("\xef\xbb\xbf")), 0)
	if err != nil {
		line, what := 1, err.Error()
		var syntax yaml.Error
		if errors.As(err, &syntax) {
			if k := syntax.GetToken(); k != nil && k.Position != nil {
				line = k.Position.Line
			}
			what = syntax.GetMessage()
		}
		return nil, syntaxFault(file, line, "not readable as YAML: %s", what)
	}
	if len(parsed.Docs) == 0 || parsed.Docs[0].Body == nil {
		return nil, syntaxFault(file, 1, "is empty")
	}
	if len(parsed.Docs) > 1 {
		return nil, syntaxFault(file, yamlLine(parsed.Docs[1].Body, 1), "holds more than one document")
	}
	y := yamlParser{anchors: map[string]*tree{}}
	t = y.value(parsed.Docs[0].Body, 1, 0)
	if y.deep {
		return nil, syntaxFault(file, 1, "values are nested too deeply")
	}
	return t, nil
}

// yamlLine returns the line of a node; some nodes of malformed files have no token.
func yamlLine(n ast.Node, otherwise int) int {
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
	anchors map[string]*tree // values are shared between an anchor and its aliases, never copied
	deep    bool
}

// value converts one node. Nodes of no known type become null.
func (y *yamlParser) value(n ast.Node, line, depth int) *tree {
	line = yamlLine(n, line)
	t := &tree{line: line}
	if depth > maxTreeDepth {
		y.deep = true
		return t
	}
	switch v := n.(type) {
	case *ast.MappingNode:
		t.kind = treeObject
		for _, m := range v.Values {
			y.member(t, m, line, depth)
		}
	case *ast.MappingValueNode:
		t.kind = treeObject
		y.member(t, v, line, depth)
	case *ast.SequenceNode:
		t.kind = treeList
		for _, item := range v.Values {
			t.items = append(t.items, y.value(item, line, depth+1))
		}
	case *ast.AnchorNode:
		t = y.value(v.Value, line, depth+1)
		if v.Name != nil {
			y.anchors[v.Name.String()] = t
		}
	case *ast.AliasNode:
		if v.Value != nil && y.anchors[v.Value.String()] != nil {
			return y.anchors[v.Value.String()]
		}
	case *ast.TagNode:
		return y.value(v.Value, line, depth+1)
	case *ast.StringNode:
		t.kind, t.text = treeString, v.Value
	case *ast.LiteralNode:
		t.kind = treeString
		if v.Value != nil {
			t.text = v.Value.Value
		}
	case *ast.BoolNode:
		t.kind, t.text = treeBool, tokenText(n)
	case *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		t.kind, t.text = treeNumber, tokenText(n)
	}
	return t
}

// member adds a key and its value. A value without a token of its own has the line of its key.
func (y *yamlParser) member(t *tree, m *ast.MappingValueNode, line, depth int) {
	key := y.value(m.Key, yamlLine(m.Key, line), depth+1)
	item := y.value(m.Value, key.line, depth+1)
	if item.kind == treeObject || item.kind == treeNull {
		item.line = key.line // a mapping's own token is a colon further down
	}
	t.keys, t.items = append(t.keys, key.text), append(t.items, item)
}

func tokenText(n ast.Node) string {
	if t := n.GetToken(); t != nil {
		return t.Value
	}
	return ""
}

// parseJSONTree parses one JSON value. Of a top-level object it parses only the values whose keys
// want accepts; nil wants all.
func parseJSONTree(file string, data []byte, want func(key string) bool) (*tree, *Fault) {
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	if len(bytes.TrimSpace(data)) == 0 {
		return nil, syntaxFault(file, 1, "is empty")
	}
	p := jsonParser{dec: json.NewDecoder(bytes.NewReader(data)), data: data, line: 1, want: want}
	p.dec.UseNumber()
	t, err := p.value(0)
	if err == nil {
		if _, end := p.dec.Token(); !errors.Is(end, io.EOF) {
			p.advance(p.dec.InputOffset())
			return nil, syntaxFault(file, p.line, "content after the end of the document")
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
	return nil, syntaxFault(file, p.line, "not readable as JSON: %v", err)
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
func (p *jsonParser) value(depth int) (*tree, error) {
	token, err := p.dec.Token()
	if err != nil {
		return nil, err
	}
	p.advance(p.dec.InputOffset())
	t := &tree{line: p.line}
	switch v := token.(type) {
	case json.Delim:
		if depth > maxTreeDepth {
			return nil, errors.New("values are nested too deeply")
		}
		if v == '[' {
			t.kind = treeList
			err = p.items(t, depth)
		} else {
			t.kind = treeObject
			err = p.members(t, depth)
		}
	case string:
		t.kind, t.text = treeString, v
	case json.Number:
		t.kind, t.text = treeNumber, v.String()
	case bool:
		t.kind, t.text = treeBool, "false"
		if v {
			t.text = "true"
		}
	}
	return t, err
}

func (p *jsonParser) items(t *tree, depth int) error {
	for p.dec.More() {
		item, err := p.value(depth + 1)
		if err != nil {
			return err
		}
		t.items = append(t.items, item)
	}
	_, err := p.dec.Token()
	return err
}

// members parses the members of an object; of the top level it skips the values not wanted, which
// costs a scan but no memory.
func (p *jsonParser) members(t *tree, depth int) error {
	for p.dec.More() {
		token, err := p.dec.Token()
		if err != nil {
			return err
		}
		key, _ := token.(string)
		var item *tree
		if depth == 0 && p.want != nil && !p.want(key) {
			p.advance(p.dec.InputOffset())
			item = &tree{kind: treeSkipped, line: p.line}
			var skipped json.RawMessage
			err = p.dec.Decode(&skipped)
		} else {
			item, err = p.value(depth + 1)
		}
		if err != nil {
			return err
		}
		t.keys, t.items = append(t.keys, key), append(t.items, item)
	}
	_, err := p.dec.Token()
	return err
}

// topLevelKeys returns the keys of a JSON object, without their values; nil where the data is none.
func topLevelKeys(data []byte) []string {
	t, _ := parseJSONTree("", data, func(string) bool { return false })
	if t == nil {
		return nil
	}
	return t.keys
}
