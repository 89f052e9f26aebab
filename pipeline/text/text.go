// Package text writes answers for people.
package text

import (
	"fmt"
	"io"
)

// A Printer writes lines until one fails.
type Printer struct {
	W   io.Writer
	Err error // of the first line that failed
}

// Linef writes a line.
func (p *Printer) Linef(format string, args ...any) {
	if p.Err == nil {
		_, p.Err = fmt.Fprintf(p.W, format+"\n", args...)
	}
}
