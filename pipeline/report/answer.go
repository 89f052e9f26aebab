package report

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"

	"parsimon/queries"
)

// An answer has the rows of the result of one query. They are aggregates, so there are few of them.
type answer struct {
	columns []string
	rows    [][]any // nil, bool, int64, float64 or string
}

func ask(ctx context.Context, db *queries.DB, q queries.Query, params map[string]string) (*answer, error) {
	found, err := db.Run(ctx, q, params)
	if err != nil {
		return nil, err
	}
	for _, row := range found.Rows {
		for i, v := range row {
			row[i] = plain(v)
		}
	}
	return &answer{found.Columns, found.Rows}, nil
}

// plain converts a value of a format.Answer to one of the types of an answer.
func plain(v any) any {
	x := reflect.ValueOf(v)
	switch v.(type) {
	case nil, bool, int64, string:
		return v
	}
	switch {
	case x.CanFloat() && (math.IsNaN(x.Float()) || math.IsInf(x.Float(), 0)):
		return nil
	case x.CanFloat():
		return x.Float()
	case x.CanUint():
		return float64(x.Uint())
	}
	return fmt.Sprint(v)
}

// Len returns the number of rows. It is 0 for a nil answer.
func (a *answer) Len() int {
	if a == nil {
		return 0
	}
	return len(a.rows)
}

// at returns a value, or nil if the row or column does not exist.
func (a *answer) at(row int, column string) any {
	if row >= a.Len() {
		return nil
	}
	i := slices.Index(a.columns, column)
	if i >= 0 {
		return a.rows[row][i]
	}
	return nil
}

// Text returns a text, or an empty string for null.
func (a *answer) Text(row int, column string) string {
	s, _ := a.at(row, column).(string)
	return s
}

// Float returns a number, or NaN for null.
func (a *answer) Float(row int, column string) float64 { return number(a.at(row, column)) }

func number(v any) float64 {
	switch v := v.(type) {
	case float64:
		return v
	case int64:
		return float64(v)
	}
	return math.NaN()
}

// Int returns an integer, or 0 for null.
func (a *answer) Int(row int, column string) int64 {
	v, _ := a.at(row, column).(int64)
	return v
}

// Is reports whether the value of a column is true.
func (a *answer) Is(row int, column string) bool { v, _ := a.at(row, column).(bool); return v }

// Null reports whether a value is null.
func (a *answer) Null(row int, column string) bool { return a.at(row, column) == nil }

func (a *answer) where(keep func(row int) bool) *answer {
	out := &answer{}
	if a != nil {
		out.columns = a.columns
	}
	for i := range a.Len() {
		if keep(i) {
			out.rows = append(out.rows, a.rows[i])
		}
	}
	return out
}

func (a *answer) without(columns ...string) *answer {
	out := &answer{rows: make([][]any, len(a.rows))}
	for i, c := range a.columns {
		if slices.Contains(columns, c) {
			continue
		}
		out.columns = append(out.columns, c)
		for k := range a.rows {
			out.rows[k] = append(out.rows[k], a.rows[k][i])
		}
	}
	return out
}

// MarshalJSON writes an answer column by column. This takes a third of the space of an array of row objects:
//
//	{"columns": ["tier", "share"], "values": [{"of": ["host-tor"], "at": [0, 0]}, [0.5, null]]}
//
// Texts are encoded as indices into a list of the distinct texts; -1 stands for null. Numbers have six
// significant digits. Integers have all digits.
func (a *answer) MarshalJSON() ([]byte, error) {
	values := make([]any, len(a.columns))
	for i := range a.columns {
		values[i] = a.column(i)
	}
	return json.Marshal(map[string]any{"columns": append([]string{}, a.columns...), "values": values})
}

// column returns a column in the form in which MarshalJSON writes it. If any value of a column is a text, all
// of its values are written as texts.
func (a *answer) column(i int) any {
	texts := slices.ContainsFunc(a.rows, func(row []any) bool { _, ok := row[i].(string); return ok })
	if !texts {
		out := make([]any, len(a.rows))
		for k, row := range a.rows {
			out[k] = row[i]
			if f, ok := row[i].(float64); ok {
				out[k] = json.Number(strconv.FormatFloat(f, 'g', 6, 64))
			}
		}
		return out
	}
	at := make([]int, len(a.rows))
	places := map[string]int{}
	of := []string{}
	for k, row := range a.rows {
		text, ok := row[i].(string)
		if !ok && row[i] == nil {
			at[k] = -1
			continue
		}
		if !ok {
			text = fmt.Sprint(row[i])
		}
		place, known := places[text]
		if !known {
			place = len(of)
			places[text] = place
			of = append(of, text)
		}
		at[k] = place
	}
	return map[string]any{"of": of, "at": at}
}
