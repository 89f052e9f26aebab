package headline

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"go/scanner"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Sources are the parts of the repository that a measurement depends on.
type Sources struct {
	Packages []string // relative to the root, with all packages of the module that they import
	Without  []string // of those, packages that the measured code does not enter, with the folders below them
	Files    []string // other files, relative to the root
}

// modulePath is the path of the module of this repository.
const modulePath = "parsimon"

// Digests returns a digest of the sources of each measurement, by name: of the code without comments and
// tests, of embedded files, and of the versions of other modules. The platform is always the same one, so
// that a digest does not depend on the machine.
func Digests(ctx context.Context, root string) (map[string]string, error) {
	var roots []string
	for _, m := range Measurements {
		roots = append(roots, m.Sources.Packages...)
	}
	slices.Sort(roots)
	graph, err := listPackages(ctx, root, slices.Compact(roots))
	if err != nil {
		return nil, err
	}
	digests := map[string]string{}
	contents := map[string][]byte{} // of packages, by import path
	for _, m := range Measurements {
		hash := sha256.New()
		for _, p := range graph.closure(m.Sources) {
			if contents[p.ImportPath] == nil {
				if contents[p.ImportPath], err = p.content(); err != nil {
					return nil, err
				}
			}
			_, _ = hash.Write(contents[p.ImportPath]) // never fails
		}
		for _, file := range m.Sources.Files {
			data, err := os.ReadFile(filepath.Join(root, file))
			if err != nil {
				return nil, err
			}
			_, _ = fmt.Fprintf(hash, "%s %d\n%s", file, len(data), data) // never fails
		}
		digests[m.Name] = fmt.Sprintf("%x", hash.Sum(nil)[:6])
	}
	return digests, nil
}

// A goPackage is a package as "go list" describes it.
type goPackage struct {
	ImportPath string
	Dir        string
	Standard   bool
	GoFiles    []string
	CgoFiles   []string
	SFiles     []string
	HFiles     []string
	EmbedFiles []string
	Imports    []string
	Module     *struct{ Path, Version string }
}

// A packageGraph has packages by import path.
type packageGraph map[string]*goPackage

// listPackages describes packages and all packages that they import.
func listPackages(ctx context.Context, root string, packages []string) (packageGraph, error) {
	fields := "ImportPath,Dir,Standard,GoFiles,CgoFiles,SFiles,HFiles,EmbedFiles,Imports,Module"
	args := []string{"list", "-deps", "-json=" + fields}
	for _, p := range packages {
		args = append(args, "./"+p)
	}
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "GOOS=linux", "GOARCH=amd64", "CGO_ENABLED=1", "GOFLAGS=")
	var log bytes.Buffer
	cmd.Stderr = &log
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w: %s", err, log.String())
	}
	graph := packageGraph{}
	stream := json.NewDecoder(bytes.NewReader(out))
	for {
		p := &goPackage{}
		err := stream.Decode(p)
		if errors.Is(err, io.EOF) {
			return graph, nil
		}
		if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		graph[p.ImportPath] = p
	}
}

// closure returns the packages that sources consist of, in the order of their import paths.
func (g packageGraph) closure(s Sources) []*goPackage {
	excluded := func(path string) bool {
		return slices.ContainsFunc(s.Without, func(without string) bool {
			return path == modulePath+"/"+without || strings.HasPrefix(path, modulePath+"/"+without+"/")
		})
	}
	found := map[string]*goPackage{}
	var visit func(path string)
	visit = func(path string) {
		p := g[path]
		if p == nil || p.Standard || found[path] != nil || excluded(path) {
			return
		}
		found[path] = p
		for _, imported := range p.Imports {
			visit(imported)
		}
	}
	for _, p := range s.Packages {
		visit(modulePath + "/" + p)
	}
	var all []*goPackage
	for _, p := range found {
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b *goPackage) int { return strings.Compare(a.ImportPath, b.ImportPath) })
	return all
}

// content returns what a digest of a package depends on. The content of a package of another module is its
// version.
func (p *goPackage) content() ([]byte, error) {
	content := []byte("package " + p.ImportPath + "\n")
	if p.Module != nil && p.Module.Path != modulePath {
		return append(content, p.Module.Version...), nil
	}
	for _, name := range slices.Concat(p.GoFiles, p.CgoFiles, p.SFiles, p.HFiles, p.EmbedFiles) {
		data, err := os.ReadFile(filepath.Join(p.Dir, name))
		if err != nil {
			return nil, err
		}
		if filepath.Ext(name) == ".go" {
			data = withoutComments(data)
		}
		content = append(content, fmt.Sprintf("file %d\n", len(data))...)
		content = append(content, data...)
	}
	return content, nil
}

// withoutComments returns the tokens of a Go file, one a line. Comments that are instructions to the compiler
// remain.
func withoutComments(source []byte) []byte {
	files := token.NewFileSet()
	file := files.AddFile("", files.Base(), len(source))
	var s scanner.Scanner
	s.Init(file, source, nil, scanner.ScanComments)
	var out bytes.Buffer
	for {
		_, kind, text := s.Scan()
		if kind == token.EOF {
			return out.Bytes()
		}
		if kind == token.COMMENT && !strings.HasPrefix(text, "//go:") {
			continue
		}
		if kind == token.SEMICOLON {
			text = ";" // also one that ends a line
		}
		out.WriteString(kind.String() + " " + text + "\n")
	}
}
