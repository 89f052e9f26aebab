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
	"math/big"
	"strconv"
	"strings"
	"time"

	driver "github.com/marcboeker/go-duckdb/v2"
)

// text returns a value of Next for tables and CSV. Null is empty. Floats have the shortest form that reads
// back as the same value.
func text(v any, kind string) string {
	switch v := v.(type) {
	case nil:
		return ""
	case bool:
		return strconv.FormatBool(v)
	case int64:
		return strconv.FormatInt(v, 10)
	case uint64:
		return strconv.FormatUint(v, 10)
	case *big.Int:
		return v.String()
	case float32:
		return strconv.FormatFloat(float64(v), 'g', -1, 32)
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64)
	case string:
		return v
	case []byte:
		return hex.EncodeToString(v)
	case time.Time:
		switch kind {
		case "DATE":
			return v.Format("2006-01-02")
		case "TIMESTAMPTZ":
			return v.Format(time.RFC3339Nano)
		default:
			return v.Format("2006-01-02 15:04:05.999999999")
		}
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
		if f := float64(v); math.IsNaN(f) || math.IsInf(f, 0) {
			return []byte("null")
		}
		return []byte(text(v, ""))
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return []byte("null")
		}
		return []byte(text(v, ""))
	case bool, int64, uint64, *big.Int, driver.Decimal:
		return []byte(text(v, ""))
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
	return jsonString(text(v, ""))
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
	out := csv.NewWriter(w)
	if err := out.Write(r.columns); err != nil {
		return err
	}
	record := make([]string, len(r.columns))
	err := r.Each(func(row []any) error {
		for i, v := range row {
			record[i] = text(v, r.types[i])
		}
		return out.Write(record)
	})
	if err != nil {
		return err
	}
	out.Flush()
	return out.Error()
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
			if _, err := out.Write(r.jsonField(i, v)); err != nil {
				return err
			}
		}
		return out.WriteByte('}')
	})
	if err != nil {
		return errors.Join(err, out.Flush())
	}
	_, _ = out.WriteString("\n]\n")
	return out.Flush()
}

// jsonField returns the value of a column as JSON.
func (r *Rows) jsonField(column int, v any) []byte {
	kind := r.types[column]
	switch v := v.(type) {
	case time.Time:
		return jsonString(text(v, kind))
	case string:
		if nested(kind) && json.Valid([]byte(v)) {
			return []byte(v)
		}
	}
	return jsonValue(v)
}

// nested reports whether Next returns values of the type as JSON strings.
func nested(kind string) bool {
	return kind == "JSON" || kind == "INTERVAL" || strings.HasPrefix(kind, "STRUCT(") && strings.HasSuffix(kind, ")") ||
		strings.HasPrefix(kind, "MAP(") && strings.HasSuffix(kind, ")")
}
