// Package gate evaluates conditions on the results of an estimate, for scripts that must detect when a
// network becomes worse:
//
//	service=storage p99_slowdown > 5
//	└ which flows ┘ └ metric ──┘ └ limit ┘
//
// A gate fails if its condition is true.
package gate

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"parsimon/schema/names"
)

// A Gate is one condition.
type Gate struct {
	Text     string            // as it was given
	Filter   map[string]string // by Columns or linkColumns: selects the flows or links; empty: all
	Load     bool              // the value is the load of the most loaded link, not a quantile
	Quantile float64           // 0.5, 0.9, 0.99 or 0.999
	FCT      bool              // the value is that of the FCT, in ms, not of the slowdown
	// The value is the relative change of the quantile from a base, not the quantile itself.
	Change   bool
	operator string
	limit    float64
}

// Columns lists the columns by which flows can be selected.
func Columns() []string { return []string{"service", "vnet", "size_bin"} }

// linkColumns lists the columns by which links can be selected: a cable A:B, which includes both directions,
// and a tier.
var linkColumns = []string{"link", "tier"}

var (
	condition = regexp.MustCompile(
		`^(.*?)\s*\b(?:(p50|p90|p99|p999)_(slowdown|fct_ms|change|fct_change)|load)\s*` +
			`(<=|>=|<|>)\s*([-+]?[0-9.eE]+)\s*(%?)\s*$`)
	selection = regexp.MustCompile(`^(\w+)=("[^"]*"|\S+)\s*`)
	quantiles = map[string]float64{"p50": 0.5, "p90": 0.9, "p99": 0.99, "p999": 0.999}
)

// Parse parses a gate. It consists of zero or more COLUMN=VALUE, a metric, an operator and a number. The
// metric is pNN_slowdown, pNN_fct_ms, pNN_change (of the slowdown), pNN_fct_change or load. The operator is
// <, <=, > or >=. For a change or a load, the number may be a percentage.
func Parse(text string) (Gate, error) {
	fail := func(why string) (Gate, error) {
		return Gate{}, fmt.Errorf("%q: %s; want a condition such as 'service=storage p99_slowdown > 5', "+
			"'p99_fct_ms > 20', 'p99_change > 10%%' or 'link=leaf1:spine1 load > 80%%'", text, why)
	}
	m := condition.FindStringSubmatch(text)
	if m == nil {
		return fail("not a condition")
	}
	g := Gate{Text: text, Filter: map[string]string{}, Quantile: quantiles[m[2]],
		FCT: strings.HasPrefix(m[3], "fct_"), Change: strings.HasSuffix(m[3], "change"), Load: m[2] == "",
		operator: m[4]}
	things, columns := g.things()
	var err error
	if g.limit, err = strconv.ParseFloat(m[5], 64); err != nil {
		return fail("the limit is not a number")
	}
	if m[6] != "" {
		if !g.Change && !g.Load {
			return fail("only a change and a load have a %")
		}
		g.limit /= 100
	} else if g.Load && g.limit > 10 {
		return fail("a load is a share, such as 0.8 or 80%")
	}
	for rest := strings.TrimSpace(m[1]); rest != ""; {
		s := selection.FindStringSubmatch(rest)
		if s == nil {
			return fail(fmt.Sprintf("%q selects no %s", rest, things))
		}
		if !slices.Contains(columns, s[1]) {
			return fail(fmt.Sprintf("%s cannot be selected by %s, only by %s", things, s[1],
				strings.Join(columns, ", ")))
		}
		if _, twice := g.Filter[s[1]]; twice {
			return fail("it selects by " + s[1] + " twice")
		}
		g.Filter[s[1]] = strings.Trim(s[2], `"`)
		rest = rest[len(s[0]):]
	}
	return g, nil
}

// things returns whether a gate applies to flows or links, and the columns that select them.
func (g Gate) things() (name string, columns []string) {
	if g.Load {
		return "links", linkColumns
	}
	return "flows", Columns()
}

// None returns the error of a gate that selects no flow or no link. values returns the values of the flows or
// links in a column.
func (g Gate) None(values func(column string) ([]string, error)) error {
	things, _ := g.things()
	for _, column := range slices.Sorted(maps.Keys(g.Filter)) {
		asked := g.Filter[column]
		known, err := values(column)
		if err != nil {
			return err
		}
		slices.Sort(known)
		if known = slices.DeleteFunc(known, func(v string) bool { return v == "" }); !slices.Contains(
			known, asked) {
			return fmt.Errorf("no %s have %s %q; there are %s", things, column, asked,
				cmp.Or(strings.Join(names.Nearest(asked, known, 20), ", "), "none"))
		}
	}
	return fmt.Errorf("no %s have all of that", things)
}

// Fails reports whether the condition is true for a value.
func (g Gate) Fails(value float64) bool {
	switch g.operator {
	case "<":
		return value < g.limit
	case "<=":
		return value <= g.limit
	case ">":
		return value > g.limit
	}
	return value >= g.limit
}

// A Verdict is the result of a gate: the value that was compared with the limit, and the interval of the
// value if it has one.
type Verdict struct {
	Gate  string   `json:"gate"`
	Value *float64 `json:"value"` // nil: none of the selected flows has a path, which is treated as +Inf
	Lo    *float64 `json:"lo,omitempty"`
	Hi    *float64 `json:"hi,omitempty"`
	// The interval contains the limit, so another sample could give another result.
	Open   bool `json:"open,omitempty"`
	Failed bool `json:"failed"` // depends only on the value

	percent bool // the value is a change or a load
}

// An Interval is a value with a lower and an upper bound.
type Interval struct{ Value, Lo, Hi float64 }

// Exactly returns the interval of a value without uncertainty.
func Exactly(value float64) Interval { return Interval{value, value, value} }

// An Error lists the gates that failed.
type Error struct{ Failed []Verdict }

// Error names each gate with its value.
func (e *Error) Error() string {
	lines := make([]string, len(e.Failed))
	for i, v := range e.Failed {
		unit := ""
		by := 1.0
		if v.percent {
			unit = "%"
			by = 100
		}
		if v.Value == nil {
			lines[i] = fmt.Sprintf("--fail-if '%s': no flow that it selects has a path", v.Gate)
			continue
		}
		lines[i] = fmt.Sprintf("--fail-if '%s': the value is %.6g%s", v.Gate, by**v.Value, unit)
		if v.Lo != nil {
			lines[i] += fmt.Sprintf(" (%.4g%s to %.4g%[2]s)", by**v.Lo, unit, by**v.Hi)
		}
		if v.Open {
			lines[i] += ", whose interval holds the limit"
		}
	}
	return strings.Join(lines, "\n")
}

// Judge evaluates gates and returns all verdicts. If any gate failed, it returns an *Error as well.
func Judge(gates []Gate, value func(g Gate) (Interval, error)) (all []Verdict, err error) {
	var failed []Verdict
	for _, g := range gates {
		x, err := value(g)
		if err != nil {
			return nil, fmt.Errorf("--fail-if '%s': %w", g.Text, err)
		}
		v := Verdict{Gate: g.Text, Open: g.Fails(x.Lo) != g.Fails(x.Hi), Failed: g.Fails(x.Value),
			percent: g.Change || g.Load}
		if !math.IsInf(x.Value, 1) {
			v.Value = &x.Value
		}
		if x.Lo < x.Hi && !math.IsInf(x.Hi, 1) {
			v.Lo = &x.Lo
			v.Hi = &x.Hi
		}
		all = append(all, v)
		if v.Failed {
			failed = append(failed, v)
		}
	}
	if failed != nil {
		return all, &Error{failed}
	}
	return all, nil
}
