package network

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"slices"
	"strings"
	"testing"
)

// Without this test the table of hooks in the package comment would become outdated. A feature is called at
// the listed points and nowhere else: the table has every call of a part's method, by the function that calls
// it.
func TestHooksAreListed(t *testing.T) {
	text, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(text), "//\tcalled by ")
	if !found {
		t.Fatal("doc.go has no table of hooks")
	}
	var listed []string
	for _, line := range strings.Split(table, "\n")[1:] {
		fields := strings.Fields(strings.TrimPrefix(line, "//"))
		if len(fields) == 0 {
			break
		}
		for _, hook := range fields[1:] {
			listed = append(listed, fields[0]+" "+strings.TrimSuffix(hook, ","))
		}
	}
	slices.Sort(listed)
	called := hooks(t)
	for _, hook := range called {
		if !slices.Contains(listed, hook) {
			t.Errorf("the table lacks %s", hook)
		}
	}
	for _, hook := range listed {
		if !slices.Contains(called, hook) {
			t.Errorf("the table has %s, which is not called", hook)
		}
	}
}

// hooks returns the calls of methods of parts, as "caller part.method".
func hooks(t *testing.T) (all []string) {
	t.Helper()
	parts := []string{"classes", "buffers", "pfc", "recovery", "tcp", "paths", "deliveries"}
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		name := entry.Name()
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range file.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok {
				continue
			}
			ast.Inspect(f, func(node ast.Node) bool {
				if part, method, ok := partCall(node); ok && slices.Contains(parts, part) {
					all = append(all, fmt.Sprintf("%s %s.%s", callerName(f), part, method))
				}
				return true
			})
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// partCall returns the part and the method of a call like d.part.method().
func partCall(node ast.Node) (part, method string, ok bool) {
	call, ok := node.(*ast.CallExpr)
	if !ok {
		return "", "", false
	}
	of, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return "", "", false
	}
	field, ok := of.X.(*ast.SelectorExpr)
	if !ok {
		return "", "", false
	}
	if x, ok := field.X.(*ast.Ident); !ok || x.Name != "d" {
		return "", "", false
	}
	return field.Sel.Name, of.Sel.Name, true
}

// callerName returns the name of a function, after that of its receiver's type.
func callerName(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return f.Name.Name
	}
	receiver := f.Recv.List[0].Type
	if pointer, ok := receiver.(*ast.StarExpr); ok {
		receiver = pointer.X
	}
	if named, ok := receiver.(*ast.Ident); ok {
		return named.Name + "." + f.Name.Name
	}
	return f.Name.Name
}
