// Package text writes answers for people.
package text

import (
	"fmt"
	"io"
	"strings"

	"parsimon/queries/format"
)

// A Printer writes lines until one fails. Names and values in them cannot change the display of a terminal.
type Printer struct {
	W   io.Writer
	Err error // of the first line that failed
}

// Linef writes a line.
func (p *Printer) Linef(format string, args ...any) {
	if p.Err == nil {
		_, p.Err = io.WriteString(p.W, Clean(fmt.Sprintf(format+"\n", args...)))
	}
}

// Clean is format.Escape of each line of a text.
func Clean(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = format.Escape(line)
	}
	return strings.Join(lines, "\n")
}

// A Writer writes Clean text. Each Write has whole characters.
type Writer struct{ W io.Writer }

// Write writes p.
func (w Writer) Write(p []byte) (int, error) {
	if _, err := io.WriteString(w.W, Clean(string(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}
