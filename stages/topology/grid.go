package topology

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/parquet-go/parquet-go"
)

// A grid is a table as text, from CSV or Parquet. An empty cell is a null.
type grid struct {
	file    string
	headers []string // normalised: lower case, with _ between words
	column  map[string]int
	rows    [][]string
	line    []int // by row: the line of a CSV file, the row of a Parquet file
	used    map[string]bool
}

// openGrid reads a CSV or Parquet file. Faulty rows are faults of the draft and left out; the
// returned fault is for a file without a table in it.
func openGrid(d *draft, file string) (*grid, *Fault) {
	data, err := ReadFile(file)
	if err != nil {
		return nil, syntaxFault(file, 0, "%v", err)
	}
	return parseGrid(d, file, data)
}

func parseGrid(d *draft, file string, data []byte) (*grid, *Fault) {
	switch extension(file) {
	case ".csv":
		return parseCSV(d, file, data)
	case ".parquet":
		return parseParquet(d, file, data)
	}
	return nil, syntaxFault(file, 0, "want .csv or .parquet")
}

// normalise makes one spelling of "Device A", "device-a" and "device_a".
func normalise(header string) string {
	header = strings.ToLower(strings.TrimSpace(strings.TrimPrefix(header, "\ufeff")))
	return strings.NewReplacer(" ", "_", "-", "_", ".", "_").Replace(header)
}

// newGrid names the columns. Two columns of one name are a fault: a value could come from either.
func newGrid(d *draft, file string, header []string) *grid {
	g := &grid{file: file, column: map[string]int{}, used: map[string]bool{}}
	for i, name := range header {
		name = normalise(name)
		g.headers = append(g.headers, name)
		if _, twice := g.column[name]; twice && name != "" {
			d.fault(place{file: file, line: 1}, FaultFormat, "two columns are named %q", name)
		}
		g.column[name] = i
	}
	return g
}

// separator is the comma, semicolon or tab that separates the columns of a header line.
func separator(data []byte) rune {
	header, _, _ := bytes.Cut(bytes.TrimLeft(data, "\r\n"), []byte("\n"))
	best, most := ',', 0
	for _, r := range ",;\t" {
		if n := bytes.Count(header, []byte(string(r))); n > most {
			best, most = r, n
		}
	}
	return best
}

// parseCSV reads a list as spreadsheets write it: with a byte order mark, any of three separators,
// comment lines, and rows whose empty last cells are missing or surplus. A row with surplus content
// is a fault, since its cells may be shifted.
func parseCSV(d *draft, file string, data []byte) (*grid, *Fault) {
	r := csv.NewReader(bytes.NewReader(bytes.TrimPrefix(data, []byte("\ufeff"))))
	r.Comma = separator(data)
	r.TrimLeadingSpace = r.Comma != '\t'
	r.Comment = '#'
	r.FieldsPerRecord = -1
	header, err := r.Read()
	if errors.Is(err, io.EOF) {
		return nil, syntaxFault(file, 1, "is empty, want a header line")
	}
	if err != nil {
		return nil, csvFault(file, err)
	}
	g := newGrid(d, file, header)
	for {
		row, err := r.Read()
		if errors.Is(err, io.EOF) {
			return g, nil
		}
		if err != nil {
			d.faults = append(d.faults, *csvFault(file, err))
			continue
		}
		line, _ := r.FieldPos(0)
		if len(row) != len(header) {
			// Spreadsheets write trailing empty cells, or leave them out.
			extra := slices.ContainsFunc(row[min(len(row), len(header)):],
				func(cell string) bool { return strings.TrimSpace(cell) != "" })
			if extra || len(row) < 2 && len(header) > 1 {
				d.fault(place{file: file, line: line}, FaultFormat,
					"has %d columns, the header has %d", len(row), len(header))
				continue
			}
			row = append(row, make([]string, max(0, len(header)-len(row)))...)[:len(header)]
		}
		if slices.ContainsFunc(row, func(cell string) bool { return strings.TrimSpace(cell) != "" }) {
			g.rows = append(g.rows, row)
			g.line = append(g.line, line)
		}
	}
}

// csvFault is the fault of a row that is not CSV.
func csvFault(file string, err error) *Fault {
	var bad *csv.ParseError
	if errors.As(err, &bad) {
		return syntaxFault(file, bad.Line, "%v (column %d)", bad.Err, bad.Column)
	}
	return syntaxFault(file, 1, "%v", err)
}

// parseParquet reads all columns as text; nested columns have dotted names.
func parseParquet(d *draft, file string, data []byte) (g *grid, fault *Fault) {
	// The Parquet reader panics on some damaged files; to the user that is a damaged file.
	defer func() {
		if p := recover(); p != nil {
			g, fault = nil, syntaxFault(file, 0, "is not a valid Parquet file: %v", p)
		}
	}()
	f, err := parquet.OpenFile(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return nil, syntaxFault(file, 0, "is not a valid Parquet file: %v", err)
	}
	var header []string
	for _, path := range f.Schema().Columns() {
		header = append(header, strings.Join(path, "."))
	}
	g = newGrid(d, file, header)
	for _, group := range f.RowGroups() {
		if err := g.addRows(group.Rows()); err != nil {
			return nil, syntaxFault(file, 0, "is not a valid Parquet file: %v", err)
		}
	}
	return g, nil
}

func (g *grid) addRows(rows parquet.Rows) error {
	buf := make([]parquet.Row, 256)
	for {
		n, err := rows.ReadRows(buf)
		for _, row := range buf[:n] {
			cells := make([]string, len(g.headers))
			for _, v := range row {
				if !v.IsNull() && v.Column() >= 0 && v.Column() < len(cells) {
					cells[v.Column()] = v.String()
				}
			}
			g.rows = append(g.rows, cells)
			g.line = append(g.line, len(g.rows))
		}
		if errors.Is(err, io.EOF) || err == nil && n == 0 {
			return rows.Close()
		}
		if err != nil {
			return errors.Join(err, rows.Close())
		}
	}
}

func (g *grid) place(row int) place { return place{file: g.file, line: g.line[row]} }

// name returns the first of the names that is a column.
func (g *grid) name(names []string) (string, bool) {
	for _, name := range names {
		if _, has := g.column[name]; has {
			g.used[name] = true
			return name, true
		}
	}
	return "", false
}

// cell returns the text under the first of the names that is a column; empty where none is.
func (g *grid) cell(row int, names []string) string {
	name, ok := g.name(names)
	if !ok {
		return ""
	}
	return strings.TrimSpace(g.rows[row][g.column[name]])
}

// noteUnused lists the columns that nothing has asked for.
func (g *grid) noteUnused(d *draft) {
	var unused []string
	for _, name := range g.headers {
		if !g.used[name] && name != "" {
			unused = append(unused, name)
		}
	}
	if len(unused) > 0 {
		d.note("columns not used: %s", strings.Join(unused, ", "))
	}
}

// columnList names a column and its alternatives, for messages.
func columnList(names []string) string {
	if len(names) == 1 {
		return names[0]
	}
	return fmt.Sprintf("%s (or %s)", names[0], strings.Join(names[1:], ", "))
}
