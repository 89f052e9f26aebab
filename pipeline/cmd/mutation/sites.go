package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// A site is a position in a file and the text that replaces the text there.
type site struct {
	pkg         string // import path
	file        string // absolute path
	line        int
	offset      int // of the text in the file, in bytes
	text, other string
	declared    bool // outside of functions, where coverage is not counted
	counted     span // the lines whose coverage tells which tests run the site
	in          *function
}

// A function is a declared function of which a changed copy can exist beside the original.
type function struct {
	begin, name, body, end int // offsets in the file
	title                  string
	receiver               string // "" or the name of the receiver, with a dot
	types                  string // type parameters, in brackets
	arguments              string
	returns                bool // it has results
}

func (s site) String() string {
	return fmt.Sprintf("%s:%d: %s -> %s", relative(s.file), s.line, s.text, s.other)
}

// relative returns a path relative to the working directory, if that is shorter.
func relative(path string) string {
	here, err := os.Getwd()
	if err != nil {
		return path
	}
	if short, err := filepath.Rel(here, path); err == nil {
		return short
	}
	return path
}

// swaps has the operator with which a mutant replaces each operator.
var swaps = map[token.Token]token.Token{
	token.LSS: token.LEQ, token.LEQ: token.LSS, token.GTR: token.GEQ, token.GEQ: token.GTR,
	token.EQL: token.NEQ, token.NEQ: token.EQL, token.LAND: token.LOR, token.LOR: token.LAND,
	token.ADD: token.SUB, token.SUB: token.ADD, token.MUL: token.QUO, token.QUO: token.MUL,
	token.SHL: token.SHR, token.SHR: token.SHL, token.ADD_ASSIGN: token.SUB_ASSIGN,
	token.SUB_ASSIGN: token.ADD_ASSIGN, token.INC: token.DEC, token.DEC: token.INC,
}

// findSites returns the sites of packages, in the order of their files. A package without tests has no sites,
// because it is tested by other packages.
func findSites(ctx context.Context, patterns []string) ([]site, error) {
	list := exec.CommandContext(ctx, "go", append([]string{"list", "-json"}, patterns...)...)
	list.Stderr = os.Stderr
	out, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	var sites []site
	for decoder := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p struct {
			ImportPath, Dir           string
			GoFiles                   []string
			TestGoFiles, XTestGoFiles []string
		}
		err := decoder.Decode(&p)
		if errors.Is(err, io.EOF) {
			return sites, nil
		}
		if err != nil {
			return nil, err
		}
		if len(p.TestGoFiles)+len(p.XTestGoFiles) == 0 {
			continue
		}
		for _, name := range p.GoFiles {
			path := filepath.Join(p.Dir, name)
			found, err := fileSites(p.ImportPath, path)
			if err != nil {
				return nil, err
			}
			sites = append(sites, found...)
		}
	}
}

// fileSites finds the sites of one file.
func fileSites(pkg, path string) ([]site, error) {
	source, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	f := &finder{pkg: pkg, path: path, files: token.NewFileSet(), lines: strings.Split(string(source), "\n")}
	file, err := parser.ParseFile(f.files, path, source, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	for _, d := range file.Decls {
		var group *ast.GenDecl
		group, f.declared = d.(*ast.GenDecl)
		f.in = functionOf(f.files, d)
		f.body = span{f.files.Position(d.Pos()).Line, f.files.Position(d.End()).Line}
		if !f.declared || group.Tok != token.IMPORT {
			ast.Inspect(d, f.visit)
		}
	}
	return f.sites, nil
}

// A finder finds the sites of a file, declaration by declaration.
type finder struct {
	pkg, path string
	files     *token.FileSet
	lines     []string
	declared  bool
	in        *function
	body      span
	cases     []ast.Expr // of switches: no coverage is counted for them
	sites     []site
}

// visit adds the sites of a node, and reports whether those within it count, too.
func (f *finder) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.CallExpr:
		return !changesNoResult(n)
	case *ast.CaseClause:
		f.cases = append(f.cases, n.List...)
	case *ast.BinaryExpr:
		f.addOperator(n.OpPos, n.Op)
	case *ast.AssignStmt:
		f.addOperator(n.TokPos, n.Tok)
	case *ast.IncDecStmt:
		f.addOperator(n.TokPos, n.Tok)
	case *ast.BasicLit:
		other := otherNumber(n)
		if other != "" {
			f.add(n.Pos(), n.Value, other)
		}
	}
	return true
}

func (f *finder) addOperator(at token.Pos, op token.Token) {
	if other, ok := swaps[op]; ok {
		f.add(at, op.String(), other.String())
	}
}

func (f *finder) add(at token.Pos, text, other string) {
	where := f.files.Position(at)
	if isEquivalent(f.path, f.lines[where.Line-1], text) {
		return
	}
	s := site{
		pkg: f.pkg, file: f.path, line: where.Line, offset: where.Offset, text: text, other: other,
		declared: f.declared, counted: span{where.Line, where.Line},
	}
	if slices.ContainsFunc(f.cases, func(e ast.Expr) bool { return e.Pos() <= at && at < e.End() }) {
		s.counted = f.body
	}
	if f.in != nil && where.Offset > f.in.body {
		s.in = f.in
	}
	f.sites = append(f.sites, s)
}

// changesNoResult reports whether the arguments of a call are a capacity or the text of an error.
func changesNoResult(call *ast.CallExpr) bool {
	switch f := call.Fun.(type) {
	case *ast.Ident:
		return f.Name == "make" || f.Name == "panic"
	case *ast.SelectorExpr:
		of, ok := f.X.(*ast.Ident)
		return ok && (of.Name == "fmt" && f.Sel.Name == "Errorf" || of.Name == "slices" && f.Sel.Name == "Grow")
	}
	return false
}

// functionOf returns the function that a declaration declares. It returns nil if a copy could not be
// called: if a parameter or the receiver has no name.
func functionOf(files *token.FileSet, d ast.Decl) *function {
	decl, ok := d.(*ast.FuncDecl)
	if !ok || decl.Body == nil || decl.Name.Name == "init" {
		return nil
	}
	at := func(p token.Pos) int { return files.Position(p).Offset }
	f := &function{
		begin: at(decl.Pos()), name: at(decl.Name.Pos()), body: at(decl.Body.Lbrace), end: at(decl.End()),
		title: decl.Name.Name, returns: decl.Type.Results != nil,
	}
	if decl.Recv != nil {
		receivers, ok := namesOf(decl.Recv)
		if !ok {
			return nil
		}
		f.receiver = receivers[0] + "."
	}
	if decl.Type.TypeParams != nil {
		types, _ := namesOf(decl.Type.TypeParams)
		f.types = "[" + strings.Join(types, ", ") + "]"
	}
	parameters, ok := namesOf(decl.Type.Params)
	if !ok {
		return nil
	}
	f.arguments = strings.Join(parameters, ", ")
	n := len(decl.Type.Params.List)
	if n > 0 {
		_, variadic := decl.Type.Params.List[n-1].Type.(*ast.Ellipsis)
		if variadic {
			f.arguments += "..."
		}
	}
	return f
}

// namesOf returns the names of parameters. ok is false if one has none.
func namesOf(fields *ast.FieldList) (all []string, ok bool) {
	for _, f := range fields.List {
		if len(f.Names) == 0 {
			return nil, false
		}
		for _, name := range f.Names {
			if name.Name == "_" {
				return nil, false
			}
			all = append(all, name.Name)
		}
	}
	return all, true
}

// otherNumber returns a number near that of a literal: it adds one, or a quarter. It returns "" for other
// literals.
func otherNumber(n *ast.BasicLit) string {
	text := strings.ReplaceAll(n.Value, "_", "")
	switch n.Kind {
	case token.INT:
		if x, err := strconv.ParseInt(text, 0, 64); err == nil {
			return strconv.FormatInt(x+1, 10)
		}
	case token.FLOAT:
		x, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return ""
		}
		if x == 0 {
			return "1.0"
		}
		return strconv.FormatFloat(1.25*x, 'g', -1, 64)
	}
	return ""
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
