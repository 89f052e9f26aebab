package ingest

import (
	"bufio"
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	duckdriver "github.com/marcboeker/go-duckdb/v2"

	"parsimon/queries/duckdb"
	"parsimon/stages/topology"
)

// table reads the given columns of a small table, CSV with a header or Parquet, as text, and calls each for
// every row. A column may have one of several names. If a row has values under two of them, they must be
// equal. Columns that the table does not have are empty. The first required columns must exist, and so must
// one of the others. what is used in errors. The error lists the faults of all rows, up to tableFaults.
func (in *Ingester) table(ctx context.Context, file, what string, want [][]string, required int,
	each func(at string, row []string) error) error {
	if _, err := Digest(ctx, what, file); err != nil {
		return err
	}
	m := &Mapping{reads: "csv", needs: want[:required:required]}
	if required < len(want) {
		m.needs = append(m.needs, slices.Concat(want[required:]...))
	}
	for _, name := range slices.Concat(want...) {
		m.columns = append(m.columns, mappingColumn{name: name})
	}
	var faults []string
	addRow := func(n int64, broken string, cells [][]string) {
		at := fmt.Sprintf("row %d", n)
		if err := tableRow(at, broken, cells, want, each); err != nil {
			faults = append(faults, at+": "+err.Error())
		}
	}
	read := in.eachTextRow
	if isParquet(file) {
		read = in.eachParquetRow
	}
	isOpen, err := read(ctx, m, file, want, addRow)
	if err == nil && faults != nil {
		err = errors.New(strings.Join(faults[:min(len(faults), tableFaults)], "; "))
		more := len(faults) - tableFaults
		if more > 0 {
			err = fmt.Errorf("%w; and %s more", err, topology.Count(more, "fault"))
		}
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w", what, file, err)
	}
	if isOpen {
		in.note("end", openEnd(what+" "+file), "")
	}
	return nil
}

// tableFaults is the maximum number of faults of a table that an error lists.
const tableFaults = 20

// tableRow calls each for a row of a table, unless the row is broken or has several values for one column.
// cells are the different values of each column that are not empty.
func tableRow(at, broken string, cells, want [][]string, each func(at string, row []string) error) error {
	if broken != "" {
		return errors.New(broken)
	}
	row := make([]string, len(want))
	for i, values := range cells {
		if len(values) > 1 {
			return fmt.Errorf("is both %q and %q, by columns that mean the same (%s): leave one out",
				values[0], values[1], strings.Join(want[i], ", "))
		}
		row[i] = strings.Join(values, "")
	}
	return each(at, row)
}

// eachParquetRow calls addRow with each row of a Parquet table: for each list of names, the different values
// of these columns that are not empty.
func (in *Ingester) eachParquetRow(ctx context.Context, m *Mapping, file string, want [][]string,
	addRow func(n int64, broken string, cells [][]string)) (isOpen bool, err error) {
	src, err := in.stageParquet(ctx, m, file)
	if err != nil {
		return false, err
	}
	var list []string
	for _, names := range want {
		var quoted []string
		for _, name := range names {
			quoted = append(quoted, duckdb.Ident(name))
		}
		list = append(list, "list_distinct(list_filter(["+strings.Join(quoted, ", ")+"], x -> x <> ''))")
	}
	query := `SELECT "row", broken, [` + strings.Join(list, ", ") + "] FROM (" + src.relation +
		`) ORDER BY "row"`
	return false, in.each(ctx, query, func(rows *sql.Rows) error {
		var n int64
		var broken string
		var cells duckdriver.Composite[[][]string]
		err := rows.Scan(&n, &broken, &cells)
		if err == nil {
			addRow(n, broken, cells.Get())
		}
		return err
	})
}

// eachTextRow is eachParquetRow for CSV. It reports whether the last line has no line end.
func (in *Ingester) eachTextRow(ctx context.Context, m *Mapping, file string, want [][]string,
	addRow func(n int64, broken string, cells [][]string)) (isOpen bool, err error) {
	content, err := openText(file)
	if err != nil {
		return false, err
	}
	defer func() { _ = content.Close() }() // read only
	r := &lineReader{r: bufio.NewReader(topology.UntilDone(ctx, content))}
	p := &lineParser{m: m, limit: -1}
	t := &tableRows{parser: p, want: want, addRow: addRow}
	w := &lineWriter{w: t}
	if err := cmp.Or(p.read(r, w), w.flush()); err != nil {
		return false, cmp.Or(ctx.Err(), err)
	}
	if p.layouts == nil {
		p.layouts = [][]string{nil}
	}
	return r.openEnd, t.setPlaces()
}

// tableRows is a lineSink for the lines of a table.
type tableRows struct {
	parser *lineParser
	want   [][]string
	addRow func(n int64, broken string, cells [][]string)
	places [][]int // of the wanted columns, one list after the other, by header
}

// Write adds rows. After an error of a header, which setPlaces returns, it adds none.
func (t *tableRows) Write(rows []textLine) (int, error) {
	if err := t.setPlaces(); err != nil {
		return 0, err
	}
	for i := range rows {
		row := &rows[i]
		t.addRow(row.Row, row.Broken, t.cells(row))
	}
	return len(rows), nil
}

// setPlaces finds the columns in the headers so far.
func (t *tableRows) setPlaces() error {
	for _, header := range t.parser.layouts[len(t.places):] {
		places, err := t.parser.m.placesIn(header)
		if err != nil {
			return err
		}
		t.places = append(t.places, places)
	}
	return nil
}

// cells returns the different values of each wanted column that are not empty.
func (t *tableRows) cells(row *textLine) (cells [][]string) {
	if row.Broken != "" {
		return nil
	}
	fields := strings.Split(row.Line, fieldEnd)
	places := t.places[row.Layout]
	for _, names := range t.want {
		var values []string
		for _, at := range places[:len(names)] {
			if at >= 0 && at < len(fields) && fields[at] != "" && !slices.Contains(values, fields[at]) {
				values = append(values, fields[at])
			}
		}
		cells = append(cells, values)
		places = places[len(names):]
	}
	return cells
}

// Flush does nothing: rows have no groups.
func (t *tableRows) Flush() error { return nil }

// Close does nothing: the lineWriter's rows are in the table.
func (t *tableRows) Close() error { return nil }
