package faults

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The tests and traps that README.md names exist.
func TestCausesHaveTests(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	code := map[string]bool{}
	function := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	for _, dir := range []string{"../../pipeline", "../../queries", "../../stages", "../../schema"} {
		err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			for _, found := range function.FindAllSubmatch(text, -1) {
				code[string(found[1])] = true
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	names := regexp.MustCompile("`(Test\\w+)`").FindAllSubmatch(readme, -1)
	if len(names) < 30 {
		t.Errorf("README.md names only %d tests", len(names))
	}
	for _, name := range names {
		if !code[string(name[1])] {
			t.Errorf("there is no %s", name[1])
		}
	}
	for _, name := range regexp.MustCompile(`trap "(\w[^"]*)"`).FindAllSubmatch(readme, -1) {
		trapNamed(t, string(name[1]))
	}
}
