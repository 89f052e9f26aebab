package schema

import (
	"cmp"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

var update = flag.Bool("update", false, "write the counts of TestLayout that are lower than before")

// countsFile has a line for each rule, with its name and its count.
const countsFile = "testdata/layout/counts.txt"

// Code that breaks a rule of layout is hard to read. Each rule's count may only fall: a lower one is written
// down with go test ./schema -run TestLayout -update.
func TestLayout(t *testing.T) {
	found := map[string][]string{} // places, by rule
	for _, path := range sources(t, ".go") {
		if err := inspectLayout(path, found); err != nil {
			t.Fatal(err)
		}
	}
	allowed := readCounts(t)
	for _, rule := range rules {
		places := found[rule.name]
		switch most, known := allowed[rule.name]; {
		case !known || len(places) < most && *update:
			allowed[rule.name] = len(places)
		case len(places) < most:
			t.Errorf("%s: %d, no longer %d: write it down with go test ./schema -run TestLayout -update", rule.name,
				len(places), most)
		case len(places) > most:
			t.Errorf("%s: %d, at most %d are allowed: %s. The places in the files that changed last:\n%s", rule.name,
				len(places), most, rule.says, strings.Join(latest(t, places), "\n"))
		}
	}
	if *update {
		writeCounts(t, allowed)
	}
}

// rules are the rules of layout that are counted.
var rules = []struct{ name, says string }{
	{"long_lines", "a line has at most 110 characters"},
	{"if_init", "`if v := f(); cond` is for an error or an ok"},
	{"tuple_assignments", "an assignment of several values takes the results of one call, or swaps"},
	{"long_functions", "a function, also a literal, has at most 60 lines without comments"},
	{"complex_functions", "a function has a cognitive complexity of at most 25"},
	{"many_parameters", "a function has at most five parameters"},
	{"bool_parameters", "a parameter is not a bool, but of a named type, or there are two functions"},
	{"large_structs", "a struct has at most 15 fields"},
}

func readCounts(t *testing.T) map[string]int {
	t.Helper()
	counts := map[string]int{}
	for _, line := range readLines(t, countsFile) {
		name, number, _ := strings.Cut(line, " ")
		n, err := strconv.Atoi(strings.TrimSpace(number))
		if err != nil {
			t.Fatalf("%s: %q: want RULE COUNT", countsFile, line)
		}
		counts[name] = n
	}
	return counts
}

func writeCounts(t *testing.T, counts map[string]int) {
	t.Helper()
	text := "# How often the tree breaks each rule of TestLayout. The counts may only fall.\n"
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		text += fmt.Sprintf("%-18s %d\n", name, counts[name])
	}
	if err := os.WriteFile(countsFile, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// latest returns at most 20 places, from the files that changed last.
func latest(t *testing.T, places []string) []string {
	t.Helper()
	changed := map[string]int64{}
	for _, place := range places {
		file, _, _ := strings.Cut(place, ":")
		info, err := os.Stat(filepath.Join("..", file))
		if err != nil {
			t.Fatal(err)
		}
		changed[place] = info.ModTime().UnixNano()
	}
	slices.SortStableFunc(places, func(a, b string) int { return cmp.Compare(changed[b], changed[a]) })
	return places[:min(20, len(places))]
}

// inspectLayout adds the places of a Go file that break a rule. Functions of tests may be long: they are
// lists of cases.
func inspectLayout(path string, found map[string][]string) error {
	data, err := os.ReadFile(filepath.Join("..", path))
	if err != nil {
		return err
	}
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, path, data, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	l := &layout{files: files, comments: map[int]bool{}, found: found}
	l.isTest = strings.HasSuffix(path, "_test.go")
	lines := strings.Split(string(data), "\n")
	for i, line := range lines {
		text := strings.TrimSpace(line)
		l.comments[i+1] = text == "" || strings.HasPrefix(text, "//")
		if utf8.RuneCountInString(line) > 110 {
			place := fmt.Sprintf("%s:%d", path, i+1)
			found["long_lines"] = append(found["long_lines"], place)
		}
	}
	ast.Inspect(file, l.visit)
	return nil
}

// layout is the state of the inspection of one file.
type layout struct {
	files    *token.FileSet
	comments map[int]bool // lines that are empty or comments
	isTest   bool
	inHeader map[ast.Stmt]bool // first and last statements of for loops, which can only be one statement each
	found    map[string][]string
}

func (l *layout) add(rule string, n ast.Node) {
	at := l.files.Position(n.Pos())
	l.found[rule] = append(l.found[rule], fmt.Sprintf("%s:%d", at.Filename, at.Line))
}

func (l *layout) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.IfStmt:
		if n.Init != nil && !yieldsErrOrOK(n.Init) {
			l.add("if_init", n)
		}
	case *ast.ForStmt:
		if l.inHeader == nil {
			l.inHeader = map[ast.Stmt]bool{}
		}
		l.inHeader[n.Init] = true
		l.inHeader[n.Post] = true
	case *ast.AssignStmt:
		if len(n.Rhs) > 1 && !isSwap(n) && !l.inHeader[n] {
			l.add("tuple_assignments", n)
		}
	case *ast.ValueSpec:
		if len(n.Values) > 1 {
			l.add("tuple_assignments", n)
		}
	case *ast.FuncDecl:
		if n.Body != nil && !l.isTest {
			l.function(n, n.Body)
		}
	case *ast.FuncLit:
		if !l.isTest && l.lines(n.Body) > 60 {
			l.add("long_functions", n)
		}
	case *ast.FuncType:
		l.parameters(n)
	case *ast.StructType:
		if n.Fields.NumFields() > 15 {
			l.add("large_structs", n)
		}
	}
	return true
}

func (l *layout) function(n *ast.FuncDecl, body *ast.BlockStmt) {
	if l.lines(body) > 60 {
		l.add("long_functions", n)
	}
	if complexity(body) > 25 {
		l.add("complex_functions", n)
	}
}

// lines is the number of lines of a block that are neither empty nor comments.
func (l *layout) lines(body *ast.BlockStmt) (lines int) {
	last := l.files.Position(body.Rbrace).Line
	for line := l.files.Position(body.Lbrace).Line + 1; line < last; line++ {
		if !l.comments[line] {
			lines++
		}
	}
	return lines
}

func (l *layout) parameters(f *ast.FuncType) {
	if l.isTest {
		return
	}
	if f.Params.NumFields() > 5 {
		l.add("many_parameters", f)
	}
	for _, field := range f.Params.List {
		if name, ok := field.Type.(*ast.Ident); ok && name.Name == "bool" {
			for range field.Names {
				l.add("bool_parameters", field)
			}
		}
	}
}

// yieldsErrOrOK reports whether a statement yields an error, or an ok beside a value.
func yieldsErrOrOK(s ast.Stmt) bool {
	assign, ok := s.(*ast.AssignStmt)
	if !ok {
		return false
	}
	for _, target := range assign.Lhs {
		name, _ := target.(*ast.Ident)
		if name != nil && (name.Name == "ok" || strings.HasSuffix(strings.ToLower(name.Name), "err")) {
			return true
		}
	}
	if len(assign.Lhs) != 2 || len(assign.Rhs) != 1 {
		return false
	}
	switch value := assign.Rhs[0].(type) {
	case *ast.IndexExpr, *ast.TypeAssertExpr:
		return true
	case *ast.UnaryExpr:
		return value.Op == token.ARROW
	}
	return false
}

// isSwap reports whether an assignment exchanges the values of its two targets.
func isSwap(n *ast.AssignStmt) bool {
	return len(n.Lhs) == 2 && len(n.Rhs) == 2 &&
		types.ExprString(n.Lhs[0]) == types.ExprString(n.Rhs[1]) &&
		types.ExprString(n.Lhs[1]) == types.ExprString(n.Rhs[0])
}

// complexity returns the cognitive complexity of a function (G. Ann Campbell, "Cognitive Complexity", 2018).
// Each branch and loop counts one, and one more for each branch or loop around it. Each else, each jump to a
// label, and each sequence of equal logical operators counts one.
func complexity(body *ast.BlockStmt) int {
	c := &cognitive{inSequence: map[ast.Expr]bool{}}
	c.walk(body, 0)
	return c.sum
}

type cognitive struct {
	sum        int
	inSequence map[ast.Expr]bool // logical operators that an equal one around them counts
}

// walk counts a statement or an expression that is nested in depth others.
func (c *cognitive) walk(n ast.Node, depth int) {
	ast.Inspect(n, func(child ast.Node) bool {
		if child == n {
			return true
		}
		switch child := child.(type) {
		case *ast.IfStmt:
			c.sum += 1 + depth
			c.branch(child, depth)
			return false
		case *ast.ForStmt, *ast.RangeStmt, *ast.SwitchStmt, *ast.TypeSwitchStmt, *ast.SelectStmt:
			c.sum += 1 + depth
			c.walk(child, depth+1)
			return false
		case *ast.FuncLit:
			c.walk(child, depth+1)
			return false
		case *ast.BranchStmt:
			if child.Label != nil {
				c.sum++
			}
		case *ast.BinaryExpr:
			c.logical(child)
		}
		return true
	})
}

// branch counts the parts of an if statement. The caller has counted the statement itself.
func (c *cognitive) branch(n *ast.IfStmt, depth int) {
	if n.Init != nil {
		c.walk(&ast.BlockStmt{List: []ast.Stmt{n.Init}}, depth)
	}
	c.walk(&ast.ParenExpr{X: n.Cond}, depth)
	c.walk(n.Body, depth+1)
	switch otherwise := n.Else.(type) {
	case *ast.IfStmt:
		c.sum++
		c.branch(otherwise, depth)
	case *ast.BlockStmt:
		c.sum++
		c.walk(otherwise, depth+1)
	}
}

func (c *cognitive) logical(n *ast.BinaryExpr) {
	if n.Op != token.LAND && n.Op != token.LOR {
		return
	}
	if !c.inSequence[n] {
		c.sum++
	}
	for _, side := range []ast.Expr{n.X, n.Y} {
		if inner, ok := side.(*ast.BinaryExpr); ok && inner.Op == n.Op {
			c.inSequence[inner] = true
		}
	}
}

// A rule that finds nothing would allow its fault. A rule that finds good code would be switched off.
func TestLayoutFindsFaults(t *testing.T) {
	const head = "package p\n"
	for rule, code := range map[string]string{
		"if_init":           "func f() { if n := g(); n > 3 { h() } }",
		"tuple_assignments": "func f() { a, b := 1, 2; g(a, b) }",
		"many_parameters":   "func f(a, b, c, d, e, f int) {}",
		"bool_parameters":   "func f(sorted bool) {}",
		"large_structs":     "type s struct { a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p int }",
		"long_functions":    "func f() {\n" + strings.Repeat("g()\n", 61) + "}",
		"complex_functions": "func f() {" + strings.Repeat("for a && b || c {", 6) + strings.Repeat("}", 7),
		"": "func f(a, b, c, d, e int) { for i, j := 0, 1; i < j; i, j = i+1, j-1 { a, b = b, a }\n" +
			"if x, ok := g(); ok { h(x) }\nif _, known := m[a]; known { h() }\nif err := g(); err != nil { h() } }",
	} {
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, "p.go", head+code, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		found := map[string][]string{}
		ast.Inspect(file, (&layout{files: files, comments: map[int]bool{}, found: found}).visit)
		names := slices.Collect(maps.Keys(found))
		if rule == "" && len(names) > 0 ||
			rule != "" && !slices.Equal(names, []string{rule}) {
			t.Errorf("want a fault of %q, found %v in\n%s", rule, found, code)
		}
	}
}

// A branch counts for itself and for each branch or loop around it. Otherwise deep nesting would look simple.
func TestCognitiveComplexity(t *testing.T) {
	for code, want := range map[string]int{
		"if a { f() } else if b { g() } else { h() }":               3,
		"for a { for b { if c { f() } } }":                          6,
		"switch a { case 1: f(); case 2: g() }":                     1,
		"if a && b && c || d { f() }":                               3,
		"x: for a { for b { if c { continue x } } }":                7,
		"f(func() { if a { g() } })":                                2,
		"if a { if b { f() } } else { for c { if d { g() } } }":     9,
		"return a && (b || c) && d":                                 2,
		"if err := f(); err != nil { return }; if a { return }":     2,
		"select { case <-a: if b { f() } }; defer func() { g() }()": 3,
	} {
		file, err := parser.ParseFile(token.NewFileSet(), "p.go", "package p\nfunc p() {\n"+code+"\n}", 0)
		if err != nil {
			t.Fatal(err)
		}
		got := complexity(file.Decls[0].(*ast.FuncDecl).Body)
		if got != want {
			t.Errorf("%s: %d, want %d", code, got, want)
		}
	}
}
