package format

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"

	driver "github.com/marcboeker/go-duckdb/v2"
)

// timeLayouts are the forms of times; types that are not listed have the last one. Next returns times of day as
// strings, because time.Time always has a date.
var timeLayouts = map[string]string{
	"TIME": "15:04:05.999999", "TIMETZ": "15:04:05.999999Z07:00", "DATE": "2006-01-02", "TIMESTAMPTZ": time.RFC3339Nano,
	"": "2006-01-02 15:04:05.999999999",
}

func timeText(t time.Time, kind string) string {
	if layout, ok := timeLayouts[kind]; ok {
		return t.Format(layout)
	}
	return t.Format(timeLayouts[""])
}

// plain converts a value that the driver returns for a column of the type to one of the Go types of Next.
func plain(v any, kind string) any {
	switch v := v.(type) {
	case nil, int64, float64, string:
		return v
	case time.Time:
		if kind == "TIME" || kind == "TIMETZ" {
			return timeText(v, kind)
		}
		return v
	case []byte:
		if kind == "UUID" && len(v) == 16 {
			return fmt.Sprintf("%x-%x-%x-%x-%x", v[:4], v[4:6], v[6:8], v[8:10], v[10:])
		}
		return v
	case []any:
		list := make([]any, len(v))
		for i, e := range v {
			list[i] = plain(e, elementType(kind))
		}
		return list
	}
	switch r := reflect.ValueOf(v); {
	case r.CanInt():
		return r.Int()
	case r.CanUint():
		return r.Uint()
	case nested(kind): // JSON; map keys that are not strings are converted
		if data, err := json.Marshal(jsonable(v)); err == nil {
			return string(data)
		}
		return fmt.Sprint(v)
	}
	return v // bool, *big.Int, float32, driver.Decimal
}

// elementType returns the type of a list's or array's elements: DOUBLE for DOUBLE[] and DOUBLE[3]. Other
// types are returned unchanged.
func elementType(kind string) string {
	if i := strings.LastIndexByte(kind, '['); i >= 0 && strings.HasSuffix(kind, "]") {
		return kind[:i]
	}
	return kind
}

// nested reports whether Next returns values of the type as JSON strings.
func nested(kind string) bool {
	name, _, _ := strings.Cut(strings.TrimSuffix(kind, ")"), "(")
	return name == "JSON" || name == "INTERVAL" || name != kind && (name == "STRUCT" || name == "MAP" || name == "UNION")
}

// jsonable converts a nested value of the driver to one that encoding/json accepts. Keys come out sorted.
func jsonable(v any) any {
	switch v := v.(type) {
	case driver.Map:
		m := make(map[string]any, len(v))
		for key, value := range v {
			m[fmt.Sprint(key)] = jsonable(value)
		}
		return m
	case map[string]any:
		m := make(map[string]any, len(v))
		for key, value := range v {
			m[key] = jsonable(value)
		}
		return m
	case []any:
		list := make([]any, len(v))
		for i, e := range v {
			list[i] = jsonable(e)
		}
		return list
	case driver.Union:
		return jsonable(v.Value)
	case float32, float64, driver.Decimal, time.Time:
		return json.RawMessage(jsonValue(v))
	}
	return v
}

// text returns a value of Next for tables and CSV. Null is empty. Floats have the shortest form that reads
// back as the same value.
func text(v any, kind string) string {
	switch v := v.(type) {
	case nil:
		return ""
	case int64:
		return strconv.FormatInt(v, 10)
	case float32:
		return strconv.FormatFloat(float64(v), 'g', -1, 32)
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64)
	case string:
		return v
	case []byte:
		return hex.EncodeToString(v)
	case time.Time:
		return timeText(v, kind)
	case driver.Decimal:
		return v.String()
	case []any:
		return string(jsonValue(v))
	}
	return fmt.Sprint(v)
}

// jsonValue returns a value of Next as JSON.
func jsonValue(v any) []byte {
	switch v := v.(type) {
	case nil:
		return []byte("null")
	case float32:
		return jsonFloat(float64(v), 32)
	case float64:
		return jsonFloat(v, 64)
	case string, []byte, time.Time:
		return jsonString(text(v, ""))
	case []any:
		out := []byte{'['}
		for i, e := range v {
			if i > 0 {
				out = append(out, ',')
			}
			out = append(out, jsonValue(e)...)
		}
		return append(out, ']')
	}
	return []byte(text(v, "")) // bool and numbers
}

func jsonFloat(f float64, bits int) []byte {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return []byte("null")
	}
	return strconv.AppendFloat(nil, f, 'g', -1, bits)
}

// jsonString returns a text as a JSON string. Unlike json.Marshal it does not escape < > and &.
func jsonString(s string) []byte {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(s); err != nil {
		panic("format: " + err.Error()) // every string has a JSON form
	}
	return bytes.TrimRight(b.Bytes(), "\n")
}

// writeCSV writes a header line and one line per row.
func (r *Rows) writeCSV(w io.Writer) error {
	out := csv.NewWriter(w) // keeps its first error
	_ = out.Write(r.columns)
	record := make([]string, len(r.columns))
	err := r.Each(func(row []any) error {
		for i, v := range row {
			record[i] = text(v, r.types[i])
		}
		return out.Write(record)
	})
	out.Flush()
	return errors.Join(err, out.Error())
}

// writeJSON writes an array with one object per line.
func (r *Rows) writeJSON(w io.Writer) error {
	out := bufio.NewWriter(w) // keeps its first error; Flush returns it
	keys := make([][]byte, len(r.columns))
	for i, c := range r.columns {
		keys[i] = append(jsonString(c), ':')
	}
	_, _ = out.WriteString("[")
	separator := "\n{"
	err := r.Each(func(row []any) error {
		_, _ = out.WriteString(separator)
		separator = ",\n{"
		for i, v := range row {
			if i > 0 {
				_ = out.WriteByte(',')
			}
			_, _ = out.Write(keys[i])
			_, _ = out.Write(r.jsonField(i, v))
		}
		return out.WriteByte('}')
	})
	if err == nil {
		_, _ = out.WriteString("\n]\n")
	}
	return errors.Join(err, out.Flush())
}

// jsonField returns the value of a column as JSON.
func (r *Rows) jsonField(column int, v any) []byte {
	switch v := v.(type) {
	case time.Time:
		return jsonString(timeText(v, r.types[column]))
	case string:
		if nested(r.types[column]) && json.Valid([]byte(v)) {
			return []byte(v)
		}
	}
	return jsonValue(v)
}
