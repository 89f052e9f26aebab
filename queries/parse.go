package queries

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

var (
	questionFile = regexp.MustCompile(`^-- question: (.+)\n-- grain: (.+)\n-- units: (.+)\n((?:-- .+\n)*)\n([^;]+)$`)
	paramLine    = regexp.MustCompile(
		`^-- param: ([a-z][a-z0-9_]*) (text|count|positive|fraction|time) = (\S+) : (.+)\n$`)
	paramUse = regexp.MustCompile(`\$[A-Za-z_][A-Za-z0-9_]*`)
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
// Every parameter must be declared and used.
func parseQuery(file, text string) (Query, error) {
	m := questionFile.FindStringSubmatch(text)
	if m == nil {
		return Query{}, fmt.Errorf("%s: want lines question, grain, units and param, an empty line, and one "+
			"SELECT without a semicolon", file)
	}
	q := Query{Name: strings.TrimSuffix(file, ".sql"), Question: m[1], Grain: m[2], Units: m[3],
		SQL: strings.TrimSpace(m[5])}
	uses := paramUse.FindAllString(q.SQL, -1)
	for line := range strings.Lines(m[4]) {
		p := paramLine.FindStringSubmatch(line)
		if p == nil || q.hasParam(p[1]) || !slices.Contains(uses, "$"+p[1]) {
			return q, fmt.Errorf("%s: want `-- param: NAME TYPE = DEFAULT : what it is`, once and used, got %q", file, line)
		}
		q.Params = append(q.Params, Param{Name: p[1], Type: p[2], Default: strings.TrimPrefix(p[3], "''"), Doc: p[4]})
	}
	if _, err := q.With(nil); err != nil {
		return q, fmt.Errorf("%s: %w", file, err)
	}
	return q, nil
}

func (q Query) hasParam(name string) bool {
	return slices.ContainsFunc(q.Params, func(p Param) bool { return p.Name == name })
}
