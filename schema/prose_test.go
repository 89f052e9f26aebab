package schema

import (
	"bufio"
	"bytes"
	"cmp"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"parsimon/schema/names"
)

// A calque is a phrase that is translated word by word from another language.
type calque struct {
	pattern *regexp.Regexp
	instead string
}

// A text is a comment, a string literal or a paragraph of a page, in lower case and on one line.
type text struct {
	file    string
	line    int // of its first character
	content string
}

// Readers stop at a phrase that nobody in the field would say. testdata/prose/calques.txt lists such phrases.
func TestProse(t *testing.T) {
	calques := readCalques(t)
	patterns := names.Of(calques, func(c calque) string { return c.pattern.String() })
	anyOf := regexp.MustCompile(strings.Join(patterns, "|"))
	printed := 0
	for _, s := range prose(t) {
		if printed >= 40 || !anyOf.MatchString(s.content) {
			continue
		}
		for _, c := range calques {
			m := c.pattern.FindString(s.content)
			if m != "" {
				t.Errorf("%s:%d: %q: %s", s.file, s.line, m, c.instead)
				printed++
			}
		}
	}
}

// A pattern that matches nothing would not find its phrase.
func TestCalquesMatch(t *testing.T) {
	calques := readCalques(t)
	for _, sentence := range []string{
		"It must hold an estimate against the truth.",
		"Collect takes a stage for complete.",
		"A pause is taken for a loss.",
		"The run will not come to an end.",
		"This error is of the caller.",
		"It returns nil in place of an error.",
		"Whoever repeats it finds nothing.",
		"Who waits lets others go.",
		"A packet waits 3 ns in the mean.",
		"Packets take the paths in turn.",
		"The packet is sent again.",
		"It reads so many bytes.",
		"It returns at most so much.",
		"It counts whatever comes.",
		"Nothing moves till then.",
		"It is paused, for that delays flows.",
		"Each has a file of its own.",
		"It waits for ever.",
		"All but for the last are full.",
		"The command says so.",
		"The sum wraps in silence.",
		"Switches list their neighbours.",
		"It says how many rows are kept at most.",
		"Such a switch is no host.",
		"The program has nothing of it.",
		"It is refused, whichever was first.",
	} {
		matches := func(c calque) bool { return c.pattern.MatchString(strings.ToLower(sentence)) }
		if !slices.ContainsFunc(calques, matches) {
			t.Errorf("no calque matches %q", sentence)
		}
	}
	for _, sentence := range []string{
		"The table is of type DOUBLE.",
		"In the meantime it waits.",
		"A path in turning order.",
		"It waits for the reader.",
		"The senders retransmit.",
		"Workers who own the memory free it.",
		"It holds the lock.",
		"It takes 5 s for each.",
		"A link case has only the telemetry of its own link.",
		"It is the default for every scenario.",
		"There is no host with this name.",
		"It calls do for every row.",
	} {
		for _, c := range calques {
			if c.pattern.MatchString(strings.ToLower(sentence)) {
				t.Errorf("%s matches %q", c.pattern, sentence)
			}
		}
	}
}

func readCalques(t *testing.T) (all []calque) {
	t.Helper()
	for _, line := range readLines(t, "testdata/prose/calques.txt") {
		pattern, instead, ok := strings.Cut(line, " => ")
		compiled, err := regexp.Compile(pattern)
		if !ok || err != nil {
			t.Fatalf("calques.txt: %q: want PATTERN => ADVICE: %v", line, err)
		}
		all = append(all, calque{compiled, instead})
	}
	return all
}

// readLines returns the lines of a file that are neither empty nor comments.
func readLines(t *testing.T, file string) (lines []string) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSpace(line)
		if line != "" && !strings.HasPrefix(line, "#") {
			lines = append(lines, line)
		}
	}
	return lines
}

// sources returns the paths, relative to the top of the tree and sorted, of the files with one of the given
// endings. It omits test data and folders whose names begin with a dot, except .ci.
func sources(t *testing.T, endings ...string) (paths []string) {
	t.Helper()
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() && (strings.HasPrefix(name, ".") && name != ".." && name != ".ci" || name == "testdata" ||
			name == "bin" || name == "lake") {
			return fs.SkipDir
		}
		matches := func(ending string) bool { return strings.HasSuffix(name, ending) }
		if !d.IsDir() && slices.ContainsFunc(endings, matches) {
			paths = append(paths, strings.TrimPrefix(filepath.ToSlash(path), "../"))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(paths) < 20 {
		t.Fatalf("only %d files found", len(paths))
	}
	slices.Sort(paths)
	return paths
}

// prose returns all texts of the tree.
func prose(t *testing.T) (all []text) {
	t.Helper()
	for _, path := range sources(t, ".go", ".sql", ".md", ".txt", "Makefile", ".ipynb", ".yaml") {
		data, err := os.ReadFile(filepath.Join("..", path))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(path, ".go") {
			all = append(all, paragraphs(path, data)...)
			continue
		}
		if path == "schema/prose_test.go" {
			continue
		}
		found, err := goTexts(path, data)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, found...)
	}
	return all
}

var lineStart = regexp.MustCompile(`\s*\n[\s#*>"]*(?:--|//)?\s*`)

func oneLine(s string) string { return strings.ToLower(lineStart.ReplaceAllString(s, " ")) }

// paragraphs returns the parts of a file between empty lines.
func paragraphs(path string, data []byte) (all []text) {
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, len(data)+1)
	var part strings.Builder
	from := 1
	flush := func() {
		if part.Len() > 0 {
			all = append(all, text{path, from, oneLine(part.String())})
		}
		part.Reset()
	}
	for n := 1; lines.Scan(); n++ {
		if strings.TrimSpace(lines.Text()) == "" {
			flush()
			continue
		}
		if part.Len() == 0 {
			from = n
		}
		part.WriteString("\n" + lines.Text())
	}
	flush()
	return all
}

// goTexts returns the comments and string literals of a Go file, in order.
func goTexts(path string, data []byte) (all []text, err error) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, path, data, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	for _, group := range file.Comments {
		all = append(all, text{path, files.Position(group.Pos()).Line, oneLine(group.Text())})
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if s, ok := n.(*ast.BasicLit); ok && s.Kind == token.STRING {
			all = append(all, text{path, files.Position(s.Pos()).Line, oneLine(s.Value)})
		}
		return true
	})
	slices.SortFunc(all, func(a, b text) int { return cmp.Compare(a.line, b.line) })
	return all, nil
}
