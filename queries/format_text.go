package queries

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

	duckdb "github.com/marcboeker/go-duckdb/v2"
)

// text writes a value of Next for people and CSV; null is empty. Floats have all the digits that
// it takes to read them back.
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
	case duckdb.Decimal:
		return v.String()
	case []any:
		return string(jsonValue(v))
	}
	return fmt.Sprint(v)
}

// jsonValue writes a value of Next as JSON.
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
	case bool, int64, uint64, *big.Int, duckdb.Decimal:
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

// jsonString quotes a text without escaping < > &, which json.Marshal would.
func jsonString(s string) []byte {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(s); err != nil {
		panic("queries: " + err.Error()) // a text always has a JSON form
	}
	return bytes.TrimRight(b.Bytes(), "\n")
}

func (r *Rows) writeCSV(w io.Writer) error {
	out := csv.NewWriter(w)
	if err := out.Write(r.columns); err != nil {
		return err
	}
	record := make([]string, len(r.columns))
	for {
		row, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		for i, v := range row {
			record[i] = text(v, r.types[i])
		}
		if err := out.Write(record); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}

func (r *Rows) writeJSON(w io.Writer) error {
	out := bufio.NewWriter(w)
	keys := make([][]byte, len(r.columns))
	for i, c := range r.columns {
		keys[i] = append(jsonString(c), ':')
	}
	// A bufio.Writer keeps its first error and Flush returns it.
	_, _ = out.WriteString("[")
	for n := 0; ; n++ {
		row, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return errors.Join(err, out.Flush())
		}
		separator := ",\n{"
		if n == 0 {
			separator = "\n{"
		}
		_, _ = out.WriteString(separator)
		for i, v := range row {
			if i > 0 {
				_ = out.WriteByte(',')
			}
			_, _ = out.Write(keys[i])
			value := jsonValue(v)
			if t, ok := v.(time.Time); ok {
				value = jsonString(text(t, r.types[i]))
			}
			if s, ok := v.(string); ok && nested(r.types[i]) && json.Valid([]byte(s)) {
				value = []byte(s)
			}
			if _, err := out.Write(value); err != nil {
				return err
			}
		}
		_ = out.WriteByte('}')
	}
	_, _ = out.WriteString("\n]\n")
	return out.Flush()
}

// nested says whether Next gives values of the type as JSON texts.
func nested(kind string) bool {
	return kind == "JSON" || kind == "INTERVAL" || strings.HasPrefix(kind, "STRUCT(") && strings.HasSuffix(kind, ")") ||
		strings.HasPrefix(kind, "MAP(") && strings.HasSuffix(kind, ")")
}
