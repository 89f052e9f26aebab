package format

import (
	"errors"
	"fmt"
	"io"
	"math/big"
	"strings"
	"time"

	driver "github.com/marcboeker/go-duckdb/v2"
	"github.com/parquet-go/parquet-go"
)

// parquetBatch is the number of rows passed to the Parquet writer at a time. parquetGroup is the number of
// rows of a row group, which is held in memory until it is complete.
const (
	parquetBatch = 512
	parquetGroup = 1 << 16
)

// writeParquet writes the rows as Parquet: every column optional, compressed with zstd.
func (r *Rows) writeParquet(w io.Writer) error {
	columns := make([]parquetColumn, len(r.columns))
	root := parquetRoot{Group: parquet.Group{}}
	for i, name := range r.columns {
		columns[i] = newParquetColumn(r.types[i])
		root.Group[name] = columns[i].node
		root.names = append(root.names, name)
	}
	out := parquet.NewGenericWriter[any](w, parquet.NewSchema("answer", root),
		parquet.Compression(&parquet.Zstd), parquet.MaxRowsPerRowGroup(parquetGroup))
	batch := make([]parquet.Row, 0, parquetBatch)
	for {
		row, err := r.Next()
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		end := err != nil
		if !end {
			var values parquet.Row
			for i, v := range row {
				if values, err = columns[i].append(values, i, v); err != nil {
					return fmt.Errorf("column %s: %w", r.columns[i], err)
				}
			}
			batch = append(batch, values)
		}
		if len(batch) == parquetBatch || end {
			if _, err := out.WriteRows(batch); err != nil {
				return err
			}
			batch = batch[:0]
		}
		if end {
			return out.Close()
		}
	}
}

// parquetRoot is a group whose fields keep their order. parquet.Group alone sorts them by name.
type parquetRoot struct {
	parquet.Group
	names []string
}

// Fields returns the columns in the order of the answer.
func (g parquetRoot) Fields() []parquet.Field {
	byName := map[string]parquet.Field{}
	for _, f := range g.Group.Fields() {
		byName[f.Name()] = f
	}
	fields := make([]parquet.Field, len(g.names))
	for i, name := range g.names {
		fields[i] = byName[name]
	}
	return fields
}

// parquetColumn converts the values of one column to Parquet.
type parquetColumn struct {
	node  parquet.Node
	list  bool
	value func(any) (parquet.Value, error)
}

// newParquetColumn returns the column for a DuckDB type. Types without a Parquet form that all readers
// know become strings.
func newParquetColumn(kind string) parquetColumn {
	element := elementType(kind)
	if element != kind {
		leaf, value := parquetLeaf(element)
		if leaf != nil {
			return parquetColumn{parquet.Optional(parquet.List(parquet.Optional(leaf))), true, value}
		}
	} else if leaf, value := parquetLeaf(kind); leaf != nil {
		return parquetColumn{parquet.Optional(leaf), false, value}
	}
	return parquetColumn{parquet.Optional(parquet.String()), false, func(v any) (parquet.Value, error) {
		return parquet.ByteArrayValue([]byte(text(v, kind))), nil
	}}
}

// append adds a value of the column to a row with its Parquet levels. The definition level of a scalar
// is 0 for null and 1 for a value; of a list 0 for null, 1 for an empty list, 2 for a null element and 3 for
// a value. The repetition level is 1 for all elements of a list but the first.
func (c parquetColumn) append(row parquet.Row, column int, v any) (parquet.Row, error) {
	if v == nil {
		return append(row, parquet.NullValue().Level(0, 0, column)), nil
	}
	if !c.list {
		value, err := c.value(v)
		return append(row, value.Level(0, 1, column)), err
	}
	list, ok := v.([]any)
	if !ok {
		return row, fmt.Errorf("want a list, got %T", v)
	}
	if len(list) == 0 {
		return append(row, parquet.NullValue().Level(0, 1, column)), nil
	}
	for i, e := range list {
		repetition := min(i, 1)
		if e == nil {
			row = append(row, parquet.NullValue().Level(repetition, 2, column))
			continue
		}
		value, err := c.value(e)
		if err != nil {
			return row, err
		}
		row = append(row, value.Level(repetition, 3, column))
	}
	return row, nil
}

// parquetLeaf returns the Parquet type of a DuckDB type that is not nested and the conversion of its
// values, or nil if it has none.
func parquetLeaf(kind string) (parquet.Node, func(any) (parquet.Value, error)) {
	switch kind {
	case "BOOLEAN":
		return parquet.Leaf(parquet.BooleanType), convert(parquet.BooleanValue)
	case "TINYINT":
		return parquet.Int(8), convert(func(v int64) parquet.Value { return parquet.Int32Value(int32(v)) })
	case "SMALLINT":
		return parquet.Int(16), convert(func(v int64) parquet.Value { return parquet.Int32Value(int32(v)) })
	case "INTEGER":
		return parquet.Int(32), convert(func(v int64) parquet.Value { return parquet.Int32Value(int32(v)) })
	case "BIGINT":
		return parquet.Int(64), convert(parquet.Int64Value)
	case "UTINYINT":
		return parquet.Uint(8), convert(func(v uint64) parquet.Value { return parquet.Int32Value(int32(v)) })
	case "USMALLINT":
		return parquet.Uint(16), convert(func(v uint64) parquet.Value { return parquet.Int32Value(int32(v)) })
	case "UINTEGER":
		return parquet.Uint(32), convert(func(v uint64) parquet.Value { return parquet.Int32Value(int32(v)) })
	case "UBIGINT":
		return parquet.Uint(64), convert(func(v uint64) parquet.Value { return parquet.Int64Value(int64(v)) })
	case "FLOAT":
		return parquet.Leaf(parquet.FloatType), convert(parquet.FloatValue)
	case "DOUBLE":
		return parquet.Leaf(parquet.DoubleType), convert(parquet.DoubleValue)
	case "HUGEINT", "UHUGEINT":
		return parquet.Leaf(parquet.DoubleType), convert(func(v *big.Int) parquet.Value {
			f, _ := new(big.Float).SetInt(v).Float64()
			return parquet.DoubleValue(f)
		})
	case "VARCHAR", "ENUM", "UUID":
		return parquet.String(), convert(func(v string) parquet.Value { return parquet.ByteArrayValue([]byte(v)) })
	case "BLOB":
		return parquet.Leaf(parquet.ByteArrayType), convert(parquet.ByteArrayValue)
	case "DATE":
		return parquet.Date(), convert(func(v time.Time) parquet.Value {
			const day = 24 * 60 * 60
			return parquet.Int32Value(int32((v.Unix() - mod(v.Unix(), day)) / day))
		})
	case "TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMPTZ":
		instant := kind == "TIMESTAMPTZ" // the others have no time zone
		return parquet.TimestampAdjusted(parquet.Microsecond, instant), convert(func(v time.Time) parquet.Value {
			return parquet.Int64Value(v.UnixMicro())
		})
	case "TIMESTAMP_NS":
		return parquet.TimestampAdjusted(parquet.Nanosecond, false), convert(func(v time.Time) parquet.Value {
			return parquet.Int64Value(v.UnixNano())
		})
	}
	if strings.HasPrefix(kind, "DECIMAL(") {
		return parquetDecimal(kind)
	}
	return nil, nil
}

// parquetDecimal returns the Parquet type of DECIMAL(width,scale): a decimal if it fits 64 bits, else a DOUBLE.
func parquetDecimal(kind string) (parquet.Node, func(any) (parquet.Value, error)) {
	var width, scale int
	if _, err := fmt.Sscanf(kind, "DECIMAL(%d,%d)", &width, &scale); err != nil || width > 18 {
		return parquet.Leaf(parquet.DoubleType), convert(func(v driver.Decimal) parquet.Value {
			return parquet.DoubleValue(v.Float64())
		})
	}
	if width <= 9 {
		return parquet.Decimal(scale, width, parquet.Int32Type), convert(func(v driver.Decimal) parquet.Value {
			return parquet.Int32Value(int32(v.Value.Int64()))
		})
	}
	return parquet.Decimal(scale, width, parquet.Int64Type), convert(func(v driver.Decimal) parquet.Value {
		return parquet.Int64Value(v.Value.Int64())
	})
}

// convert returns a conversion of values of one Go type. A value of another type is an error: the driver
// returns all values of a column in one type.
func convert[T any](f func(T) parquet.Value) func(any) (parquet.Value, error) {
	return func(v any) (parquet.Value, error) {
		t, ok := v.(T)
		if !ok {
			return parquet.Value{}, fmt.Errorf("want %T, got %T", t, v)
		}
		return f(t), nil
	}
}

// mod returns the remainder of a / b with the sign of b.
func mod(a, b int64) int64 { return ((a % b) + b) % b }
