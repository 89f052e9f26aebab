package format

import (
	"encoding/json"
	"fmt"
	"math/big"
	"strings"
	"time"

	driver "github.com/marcboeker/go-duckdb/v2"
)

// plain converts a value that the driver returns for a column of the type to one of the Go types of Next.
func plain(v any, kind string) any {
	switch v := v.(type) {
	case int8:
		return int64(v)
	case int16:
		return int64(v)
	case int32:
		return int64(v)
	case int:
		return int64(v)
	case uint8:
		return uint64(v)
	case uint16:
		return uint64(v)
	case uint32:
		return uint64(v)
	case nil, bool, int64, uint64, *big.Int, float32, float64, string, driver.Decimal:
		return v
	case time.Time:
		if layout := timeLayout(kind); layout != "" {
			return v.Format(layout)
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
	default: // structs, maps, JSON, intervals
		return jsonText(v)
	}
}

// timeLayout returns the layout of a time of day, and "" for other types. Next returns times of day as
// strings, because time.Time always has a date.
func timeLayout(kind string) string {
	switch kind {
	case "TIME":
		return "15:04:05.999999"
	case "TIMETZ":
		return "15:04:05.999999Z07:00"
	}
	return ""
}

// elementType returns the type of a list's or array's elements: DOUBLE for DOUBLE[] and DOUBLE[3]. Other
// types are returned unchanged.
func elementType(kind string) string {
	if i := strings.LastIndexByte(kind, '['); i >= 0 && strings.HasSuffix(kind, "]") {
		return kind[:i]
	}
	return kind
}

// jsonText returns a nested value as JSON. Map keys that are not strings are converted to strings.
func jsonText(v any) string {
	data, err := json.Marshal(jsonable(v))
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(data)
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
