package queries

import (
	"fmt"
	"strconv"

	"parsimon/queries/duckdb"
)

// Param is one parameter of a question.
type Param struct {
	Name    string
	Default string // as text; may be empty for type text
	Doc     string
	// Type is the set of allowed values: text; count (integer from 1 to 100,000); positive (number
	// above 0); fraction (number above 0 and below 1); time (integer of ns, 0 or more).
	Type string
}

// maxCount limits the parameters of type count, which are numbers of rows and of bins. Memory grows with them.
const maxCount = 100_000

// literal returns a value of the parameter, given as text, as SQL.
func (p Param) literal(text string) (string, error) {
	want, sql := "", ""
	switch p.Type {
	case "text":
		return duckdb.Quote(text), nil
	case "count", "time":
		n, err := strconv.ParseInt(text, 10, 64)
		sql = fmt.Sprintf("CAST(%d AS BIGINT)", n)
		switch {
		case p.Type == "count" && (err != nil || n < 1 || n > maxCount):
			want = fmt.Sprintf("a whole number from 1 to %d", maxCount)
		case err != nil || n < 0:
			want = "a whole number of ns, 0 or more"
		}
	default:
		f, err := strconv.ParseFloat(text, 64)
		sql = "CAST(" + strconv.FormatFloat(f, 'e', -1, 64) + " AS DOUBLE)"
		switch {
		case p.Type == "fraction" && (err != nil || !(f > 0 && f < 1)):
			want = "a number above 0 and below 1"
		case err != nil || !(f > 0) || f > 1e12: // milliseconds of up to 1e12 fit 64 bits as nanoseconds
			want = "a number above 0, at most 1e12"
		}
	}
	if want != "" {
		return "", fmt.Errorf("parameter %s: want %s, got %q", p.Name, want, text)
	}
	return sql, nil
}
