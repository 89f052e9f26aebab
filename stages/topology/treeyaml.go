package topology

import (
	"bytes"
	"errors"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

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
