package tree

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// CSV calls each with the rows of a CSV file that has a header: the cells of some columns, in their order, without
// space around them. A column with ? behind its name may be missing, and its cells are empty then. The last column *
// allows others, which are an error otherwise, as is a column that occurs twice. Lines that begin with # are
// comments. Errors name the line.
func CSV(in io.Reader, columns []string, each func(line int, cells []string) error) error {
	text := bufio.NewReader(in)
	if mark, _ := text.Peek(3); string(mark) == "\ufeff" {
		_, _ = text.Discard(3) // they are there
	}
	r := csv.NewReader(text)
	r.Comment, r.TrimLeadingSpace = '#', true
	header, err := r.Read()
	if errors.Is(err, io.EOF) {
		err = errors.New("is empty")
	}
	if err != nil {
		return err
	}
	others := columns[len(columns)-1] == "*"
	if others {
		columns = columns[:len(columns)-1]
	}
	line, _ := r.FieldPos(0)
	place, known := slices.Repeat([]int{-1}, len(columns)), 0
	bad := func(what string, args ...any) error {
		return fmt.Errorf("line %d: %s: want the columns %s", line, fmt.Sprintf(what, args...),
			strings.ReplaceAll(strings.Join(columns, ", "), "?", " (if any)"))
	}
	for c, name := range columns {
		name, optional := strings.CutSuffix(name, "?")
		n := 0
		for i := range header {
			if strings.TrimSpace(header[i]) == name {
				n, place[c] = n+1, i
			}
		}
		if n > 1 || n == 0 && !optional {
			return bad("%d columns are named %s", n, name)
		}
		known += n
	}
	if known < len(header) && !others {
		return bad("it has %s", strings.Join(header, ", "))
	}
	for cells := make([]string, len(columns)); ; {
		row, err := r.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err // with the line
		}
		for c, at := range place {
			if at >= 0 {
				cells[c] = strings.TrimSpace(row[at])
			}
		}
		line, _ = r.FieldPos(0)
		if err := each(line, cells); err != nil {
			return fmt.Errorf("line %d: %w", line, err)
		}
	}
}
