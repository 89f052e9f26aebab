package format

import (
	"fmt"
	"regexp"
	"strings"

	"parsimon/queries/duckdb"
)

// notFinite matches JSON text that has NaN or an infinity, which DuckDB reads and writes, outside of its
// strings.
const notFinite = `(?is)^(?:"(?:[^"\\]|\\.)*"|[^"])*?(?:nan|inf)`

// mayHaveNaN matches the types of values that can contain NaN, and some of those that cannot.
var mayHaveNaN = regexp.MustCompile(`FLOAT|DOUBLE|JSON`)

// finite returns an expression with the value of another one of the given DuckDB type, in which NaN and
// infinities, for which JSON has no notation, are null, at any depth. Values that DuckDB already stores as
// JSON text are an error if they have NaN or an infinity.
func finite(value, kind string) string { return finiteAt(value, kind, 0) }

// finiteAt is finite inside of depth lambda functions, whose parameters have different names.
func finiteAt(value, kind string, depth int) string {
	base, arguments, _ := strings.Cut(kind, "(")
	switch {
	case kind == "FLOAT" || kind == "DOUBLE":
		return "CASE WHEN isfinite(" + value + ") THEN " + value + " END"
	case kind == "JSON":
		return "CASE WHEN regexp_matches(CAST(" + value + " AS VARCHAR), " + duckdb.Quote(notFinite) +
			") THEN error('NaN or an infinity in a value of type JSON: JSON has no notation for it') ELSE " +
			value + " END"
	case !mayHaveNaN.MatchString(kind):
		return value
	case strings.HasSuffix(kind, "]"): // LIST, or ARRAY of a fixed length
		return eachOf(value, kind[:strings.LastIndexByte(kind, '[')], depth)
	}
	fields := fieldsOf(strings.TrimSuffix(arguments, ")"))
	switch base {
	case "STRUCT":
		return finiteStruct(value, fields, depth)
	case "MAP":
		entries := "STRUCT(\"key\" " + fields[0] + ", \"value\" " + fields[1] + ")"
		return "map_from_entries(" + eachOf("map_entries("+value+")", entries, depth) + ")"
	case "UNION":
		return finiteUnion(value, fields, depth)
	}
	return value
}

// eachOf returns a list expression with finite applied to the elements.
func eachOf(list, element string, depth int) string {
	x := fmt.Sprintf("x%d", depth)
	return "list_transform(" + list + ", lambda " + x + ": " + finiteAt(x, element, depth+1) + ")"
}

func finiteStruct(value string, fields []string, depth int) string {
	var parts []string
	function := "struct_pack"
	for i, field := range fields {
		name, kind, named := cutName(field)
		if !named {
			function = "row"
			parts = append(parts, finiteAt(fmt.Sprintf("struct_extract(%s, %d)", value, i+1), kind, depth))
			continue
		}
		part := finiteAt("struct_extract("+value+", "+duckdb.Quote(name)+")", kind, depth)
		parts = append(parts, duckdb.Ident(name)+" := "+part)
	}
	return "CASE WHEN " + value + " IS NOT NULL THEN " + function + "(" + strings.Join(parts, ", ") + ") END"
}

// finiteUnion returns the JSON object that DuckDB writes for a union: the tag and the value.
func finiteUnion(value string, fields []string, depth int) string {
	var cases strings.Builder
	for _, field := range fields {
		name, kind, _ := cutName(field)
		part := finiteAt("union_extract("+value+", "+duckdb.Quote(name)+")", kind, depth)
		cases.WriteString(" WHEN " + duckdb.Quote(name) + " THEN json_object(" + duckdb.Quote(name) + ", " +
			part + ")")
	}
	return "CASE CAST(union_tag(" + value + ") AS VARCHAR)" + cases.String() + " END"
}

// fieldsOf splits the arguments of a type, as DESCRIBE prints them, at the commas outside of parentheses and
// quotes.
func fieldsOf(arguments string) (fields []string) {
	depth := 0
	from := 0
	var quote byte
	for i := range len(arguments) {
		switch c := arguments[i]; {
		case quote != 0:
			if c == quote { // a doubled quote closes and opens again
				quote = 0
			}
		case c == '"' || c == '\'':
			quote = c
		case c == '(':
			depth++
		case c == ')':
			depth--
		case c == ',' && depth == 0:
			fields = append(fields, strings.TrimSpace(arguments[from:i]))
			from = i + 1
		}
	}
	return append(fields, strings.TrimSpace(arguments[from:]))
}

// cutName splits a field of a STRUCT or UNION into its name and its type. Fields of row(…) have no names.
func cutName(field string) (name, kind string, named bool) {
	if !strings.HasPrefix(field, `"`) {
		space := strings.IndexByte(field, ' ')
		if space < 0 || strings.IndexByte(field, '(') >= 0 && strings.IndexByte(field, '(') < space {
			return "", field, false
		}
		return field[:space], field[space+1:], true
	}
	for i := 1; i < len(field); i++ {
		if field[i] != '"' {
			continue
		}
		if i+1 < len(field) && field[i+1] == '"' {
			i++
			continue
		}
		return strings.ReplaceAll(field[1:i], `""`, `"`), strings.TrimSpace(field[i+1:]), true
	}
	return "", field, false
}
