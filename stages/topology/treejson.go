package topology

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
)

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
