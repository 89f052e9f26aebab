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

// value parses a value of the parameter. The result is a string, int64 or float64, by type.
func (p Param) value(text string) (any, error) {
	bad := func(want string) error {
		return fmt.Errorf("parameter %s: want %s, got %q", p.Name, want, text)
	}
	switch p.Type {
	case "text":
		return text, nil
	case "count":
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < 1 || n > maxCount {
			return nil, bad(fmt.Sprintf("a whole number from 1 to %d", maxCount))
		}
		return n, nil
	case "positive":
		f, err := strconv.ParseFloat(text, 64)
		// Milliseconds of up to 1e12 fit 64 bits as nanoseconds.
		if err != nil || !(f > 0) || f > 1e12 {
			return nil, bad("a number above 0, at most 1e12")
		}
		return f, nil
	case "time":
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < 0 {
			return nil, bad("a whole number of ns, 0 or more")
		}
		return n, nil
	case "fraction":
		f, err := strconv.ParseFloat(text, 64)
		if err != nil || !(f > 0 && f < 1) {
			return nil, bad("a number above 0 and below 1")
		}
		return f, nil
	}
	return nil, fmt.Errorf("parameter %s: unknown type %q", p.Name, p.Type)
}

// literal returns the default as SQL. Views cannot have parameters: they have the defaults in their place.
func (p Param) literal() string {
	switch p.Type {
	case "text":
		return duckdb.Quote(p.Default)
	case "count", "time":
		return "CAST(" + p.Default + " AS BIGINT)"
	default:
		return "CAST(" + p.Default + " AS DOUBLE)"
	}
}
