package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// variants is a test binary of a package that has many mutants. Each is a copy of a function with one
// change, which the function calls if an environment variable has the number of the mutant:
//
//	func f(x int) int { if mutationVariant == 7 { return f_mutant7(x) }; return x * 2 }
//	func f_mutant7(x int) int { return x / 2 }
//
// Compiling and linking takes longer than the tests of most packages, so one binary makes a hundred mutants
// affordable.
type variants struct {
	binary, dir string
	numbers     map[site]int
	invalid     map[site]bool
	passed      map[string]bool // tests that pass in the binary without a mutant
}

const variantVariable = "PARSIMON_MUTANT"

// buildVariants builds the binary of the sites that are in functions. Mutants that do not compile are left
// out.
func (t *tester) buildVariants(ctx context.Context, sites []site) (*variants, error) {
	v := &variants{binary: filepath.Join(t.dir, "variants.test"), numbers: map[site]int{},
		invalid: map[site]bool{}, passed: map[string]bool{}}
	for i, s := range sites {
		if s.in != nil {
			v.numbers[s] = i + 1
		}
	}
	for len(v.numbers) > 0 {
		out, err := t.compile(ctx, v)
		if err != nil {
			return nil, err
		}
		if out == nil {
			return v, nil
		}
		if !v.dropInvalid(out) {
			return nil, fmt.Errorf("the mutants of %s do not compile:\n%s", v.dir, strings.Join(out, "\n"))
		}
	}
	return v, nil
}

// A copyAt is a place of the mutants' code in a compiler's messages.
var copyAt = regexp.MustCompile(`([^/\s:]+\.go):(\d+):`)

// dropInvalid removes the mutants that the compiler's messages are about, and reports whether there are any.
func (v *variants) dropInvalid(messages []string) (found bool) {
	for _, m := range messages {
		number, ok := strings.CutPrefix(m, "mutant ")
		n, err := strconv.Atoi(number)
		if !ok || err != nil {
			continue
		}
		for s, of := range v.numbers {
			if of == n {
				delete(v.numbers, s)
				v.invalid[s] = true
				found = true
			}
		}
	}
	return found
}

// compile builds the binary. If that fails, it returns the compiler's messages, those in a copy as "mutant
// N".
func (t *tester) compile(ctx context.Context, v *variants) ([]string, error) {
	files := map[string]string{}
	owners := map[string][]int{} // by name of a file: the mutant of each of its lines, or 0
	var pkg string
	for s := range v.numbers {
		if _, ok := files[s.file]; ok {
			continue
		}
		pkg = s.pkg
		text, lines, err := v.rewrite(s.file)
		if err != nil {
			return nil, err
		}
		files[s.file] = text
		owners[filepath.Base(s.file)] = lines
		v.dir = filepath.Dir(s.file)
	}
	name, err := exec.CommandContext(ctx, "go", "list", "-f", "{{.Name}}", pkg).Output()
	if err != nil {
		return nil, err
	}
	files[filepath.Join(v.dir, "mutation_variant.go")] = fmt.Sprintf(
		"package %s\n\nimport (\n\t\"os\"\n\t\"strconv\"\n)\n\nvar mutationVariant, _ = "+
			"strconv.Atoi(os.Getenv(%q))\n",
		strings.TrimSpace(string(name)), variantVariable)
	overlay, err := t.overlay(files)
	if err != nil {
		return nil, err
	}
	build := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-gcflags=-e", "-overlay", overlay, "-o",
		v.binary, pkg)
	out, err := build.CombinedOutput()
	if err == nil || ctx.Err() != nil {
		return nil, ctx.Err()
	}
	messages := strings.Split(string(out), "\n")
	for _, m := range messages {
		at := copyAt.FindStringSubmatch(m)
		if at == nil {
			continue
		}
		line, _ := strconv.Atoi(at[2])
		of := owners[at[1]]
		if line < len(of) && of[line] > 0 {
			messages = append(messages, fmt.Sprintf("mutant %d", of[line]))
		}
	}
	return messages, nil
}

// rewrite returns a file with the copies of its functions at its end, and the mutant of each line.
func (v *variants) rewrite(file string) (text string, owners []int, err error) {
	source, err := os.ReadFile(file)
	if err != nil {
		return "", nil, err
	}
	calls := map[int]string{} // by offset of a function's body
	copies := strings.Builder{}
	owners = make([]int, strings.Count(string(source), "\n")+2)
	for _, s := range v.inOrder() {
		if s.file != file {
			continue
		}
		if !strings.HasPrefix(string(source[s.offset:]), s.text) {
			return "", nil, fmt.Errorf("%s changed while its mutants were tried", file)
		}
		f := s.in
		n := v.numbers[s]
		name := fmt.Sprintf("%s_mutant%d", f.title, n)
		call := fmt.Sprintf("%s%s%s(%s)", f.receiver, name, f.types, f.arguments)
		if f.returns {
			calls[f.body] += fmt.Sprintf(" if mutationVariant == %d { return %s };", n, call)
		} else {
			calls[f.body] += fmt.Sprintf(" if mutationVariant == %d { %s; return };", n, call)
		}
		changed := "\n" + string(source[f.begin:f.name]) + name + string(source[f.name+len(f.title):s.offset]) +
			s.other +
			string(source[s.offset+len(s.text):f.end]) + "\n"
		copies.WriteString(changed)
		owners = append(owners, slices.Repeat([]int{n}, strings.Count(changed, "\n"))...)
	}
	text = string(source) + "\n"
	for _, body := range slices.Backward(sortedKeys(calls)) {
		text = text[:body+1] + calls[body] + text[body+1:]
	}
	return text + copies.String(), owners, nil
}

func (v *variants) inOrder() []site {
	return slices.SortedFunc(maps.Keys(v.numbers), func(a, b site) int { return v.numbers[a] - v.numbers[b] })
}

// check runs tests that a mutant failed without any mutant. They must pass: otherwise something else than the
// mutant, such as the copies of functions, makes them fail.
func (v *variants) check(ctx context.Context, base *baseline, failed []unitTest) error {
	tests := slices.DeleteFunc(slices.Clone(failed), func(t unitTest) bool { return v.passed[t.name] })
	verdict, failed, err := base.run(ctx, v.binary, 0, tests)
	if err == nil && verdict != alive {
		err = fmt.Errorf("tests in %s fail without a mutant, one of them %s", v.dir, failed[0].name)
	}
	for _, t := range tests {
		v.passed[t.name] = true
	}
	return err
}
