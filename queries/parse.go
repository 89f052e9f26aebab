package queries

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

var (
	headerLine = regexp.MustCompile(`^-- (question|grain|units|param): (.+)$`)
	paramLine  = regexp.MustCompile(`^([a-z][a-z0-9_]*) (text|count|positive|fraction|time) = (\S+) : (.+)$`)
	paramUse   = regexp.MustCompile(`\$[A-Za-z_][A-Za-z0-9_]*`)
)

// parseQuery parses the file of a question: a header, an empty line, and one SELECT without a semicolon.
//
//	-- question: one line
//	-- grain: one line
//	-- units: one line
//	-- param: NAME TYPE = DEFAULT : what it is     (any number of them; DEFAULT '' is the empty string)
//
//	SELECT … WHERE column = $NAME
//
// Every parameter must be declared and used. Errors name the file and the line.
func parseQuery(file, text string) (Query, error) {
	q := Query{Name: strings.TrimSuffix(file, ".sql")}
	header, body, found := strings.Cut(text, "\n\n")
	if !found {
		return q, fmt.Errorf("%s: no empty line after the header", file)
	}
	for i, line := range strings.Split(header, "\n") {
		if err := q.parseHeaderLine(line); err != nil {
			return q, fmt.Errorf("%s:%d: %w", file, i+1, err)
		}
	}
	for _, field := range [][2]string{{"question", q.Question}, {"grain", q.Grain}, {"units", q.Units}} {
		if field[1] == "" {
			return q, fmt.Errorf("%s: header has no %s", file, field[0])
		}
	}
	q.SQL = strings.TrimSpace(body)
	if q.SQL == "" || strings.Contains(q.SQL, ";") {
		return q, fmt.Errorf("%s: want one SELECT without a semicolon", file)
	}
	if err := q.checkParams(); err != nil {
		return q, fmt.Errorf("%s: %w", file, err)
	}
	return q, nil
}

// parseHeaderLine adds one line of the header to the question.
func (q *Query) parseHeaderLine(line string) error {
	m := headerLine.FindStringSubmatch(line)
	if m == nil {
		return fmt.Errorf("want a header line `-- question|grain|units|param: …`, got %q", line)
	}
	if m[1] == "param" {
		return q.parseParam(m[2])
	}
	field := map[string]*string{"question": &q.Question, "grain": &q.Grain, "units": &q.Units}[m[1]]
	if *field != "" {
		return fmt.Errorf("second %s", m[1])
	}
	*field = m[2]
	return nil
}

func (q *Query) parseParam(text string) error {
	m := paramLine.FindStringSubmatch(text)
	if m == nil {
		return fmt.Errorf("want `NAME TYPE = DEFAULT : what it is`, got %q", text)
	}
	p := Param{Name: m[1], Type: m[2], Default: m[3], Doc: m[4]}
	if p.Default == "''" {
		p.Default = ""
	}
	if _, err := p.literal(p.Default); err != nil {
		return fmt.Errorf("default: %w", err)
	}
	if q.hasParam(p.Name) {
		return fmt.Errorf("second parameter %s", p.Name)
	}
	q.Params = append(q.Params, p)
	return nil
}

// checkParams returns an error unless the parameters in the SQL are those of the header.
func (q *Query) checkParams() error {
	used := map[string]bool{}
	for _, use := range paramUse.FindAllString(q.SQL, -1) {
		used[use[1:]] = true
		if !q.hasParam(use[1:]) {
			return fmt.Errorf("%s is used but not in the header", use)
		}
	}
	for _, p := range q.Params {
		if !used[p.Name] {
			return fmt.Errorf("parameter %s is never used", p.Name)
		}
	}
	return nil
}

func (q Query) hasParam(name string) bool {
	return slices.ContainsFunc(q.Params, func(p Param) bool { return p.Name == name })
}
