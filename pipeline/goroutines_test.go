package pipeline

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"testing"
)

// caughtElsewhere lists files whose goroutines catch panics in a function that they call, or call nothing of
// ours.
var caughtElsewhere = []string{
	"../pipeline/cmd/parsimon/main.go",    // env.main recovers
	"../queries/subprocess/subprocess.go", // waits for the end of standard input
	"../simkernel/network/run.go",         // feed.nextOrFault and collector.run
	"../schema/together/together.go",      // Run
	"../pipeline/workloads/objects.go",    // copyAll catches those of each copy
}

// Every goroutine catches its panics with package together. Without this, a panic in a goroutine would end
// the process with a stack trace, and leave its temporary files behind.
func TestGoroutinesCatchPanics(t *testing.T) {
	seen := 0
	err := eachSource(func(file string) error {
		files := token.NewFileSet()
		parsed, err := parser.ParseFile(files, file, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			if !startsGoroutine(n) {
				return true
			}
			seen++
			if !mentionsTogether(n) && !slices.Contains(caughtElsewhere, file) {
				t.Errorf("%s: the goroutine does not use package together", files.Position(n.Pos()))
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if seen < 10 {
		t.Errorf("only %d goroutines were found", seen)
	}
}

// startsGoroutine reports whether a node is a go statement, or a call of a method Go with a function.
func startsGoroutine(n ast.Node) bool {
	if _, is := n.(*ast.GoStmt); is {
		return true
	}
	call, is := n.(*ast.CallExpr)
	if !is || len(call.Args) != 1 {
		return false
	}
	method, is := call.Fun.(*ast.SelectorExpr)
	return is && method.Sel.Name == "Go"
}

// mentionsTogether reports whether a function of package together is used in a node.
func mentionsTogether(n ast.Node) bool {
	found := false
	ast.Inspect(n, func(n ast.Node) bool {
		used, is := n.(*ast.SelectorExpr)
		if is {
			of, plain := used.X.(*ast.Ident)
			found = found || plain && of.Name == "together"
		}
		return true
	})
	return found
}
