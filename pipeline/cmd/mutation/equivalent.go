package main

import (
	"path/filepath"
	"strings"
)

// An equivalent is a change that no test can find, because the program behaves the same with it. The tool
// leaves it out.
type equivalent struct {
	file string // the end of its path
	line string // the source line, without spaces around it
	text string
	why  string
}

// equivalents are few on purpose: a survivor is more often a missing test.
var equivalents = []equivalent{
	{"stages/tables/sort.go", "digitBits = 11", "11", "digits of any width sort"},
	{"stages/tables/sort.go", "digits    = 1 << digitBits", "1", "digits that overlap sort, too"},
	{"stages/tables/sort.go", "for shift := 0; all>>shift != 0; shift += digitBits {", ">>",
		"more passes, the same order"},
	{"stages/tables/sort.go", "return uint64(row-least)<<10 | uint64(hop)", "10", "hops take fewer bits"},
	{"stages/tables/tables.go", "const SmallBatch = 4_096", "4_096",
		"rows do not depend on the size of batches"},
	{"stages/slowdown/hops.go", "const usualHops = 8", "8", "memory that is reserved"},
	{"stages/slowdown/hops.go", "if cap(x.hops)-len(x.hops) < int(hops) { // later flows have about as many hops", "", "memory"},
	{"stages/slowdown/hops.go",
		"x.hops = slices.Grow(x.hops, max(int(hops), min(int(hops), usualHops)*(len(x.length)-int(f))))", "",
		"memory"},
	{"stages/flow/feedback.go", "return float64(s.Uint64()>>11)/(1<<53) < probability", "<",
		"a random number of 53 bits equals the probability once in 2^53 times"},
}

// isEquivalent reports whether a change is listed. An entry without a text lists all changes of its line.
func isEquivalent(file, line, text string) bool {
	for _, e := range equivalents {
		if strings.HasSuffix(filepath.ToSlash(file), e.file) && strings.TrimSpace(line) == e.line &&
			(e.text == "" || e.text == text) {
			return true
		}
	}
	return false
}
