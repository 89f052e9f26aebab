package format

import (
	"fmt"
	"io"
	"math"
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

// writeParquet writes the rows as Parquet: every column optional, compressed with zstd. Schema nodes, not a Go type,
// describe them: the writer of maps takes a zero in the first row for null (parquet-go 0.32).
func (r *Rows) writeParquet(w io.Writer) error {
	root := parquetRoot{Group: parquet.Group{}, names: r.columns}
	elements := make([]parquet.Node, len(r.columns))
	for i, name := range r.columns {
		node := parquetNode(elementType(r.types[i]))
		elements[i] = node
		if node == nil {
			node = parquet.String()
		} else if elementType(r.types[i]) != r.types[i] {
			node = parquet.List(parquet.Optional(node))
		}
		root.Group[name] = parquet.Optional(node)
	}
	out := parquet.NewGenericWriter[any](w, parquet.NewSchema("answer", root),
		parquet.Compression(&parquet.Zstd), parquet.MaxRowsPerRowGroup(parquetGroup))
	batch := make([]parquet.Row, 0, parquetBatch)
	flush := func() error {
		_, err := out.WriteRows(batch)
		batch = batch[:0]
		return err
	}
	err := r.Each(func(row []any) error {
		var values parquet.Row
		for i, v := range row {
			values = appendParquet(values, i, v, r.types[i], elements[i])
		}
		if batch = append(batch, values); len(batch) == parquetBatch {
			return flush()
		}
		return nil
	})
	if err == nil {
		err = flush()
	}
	if err != nil {
		return err
	}
	return out.Close()
}

// appendParquet adds a value of a column to a row with its Parquet levels. The definition level of a scalar
// is 0 for null and 1 for a value; of a list 0 for null, 1 for an empty list, 2 for a null element and 3 for
// a value. The repetition level is 1 for all elements of a list but the first. element is the parquetNode of kind or,
// if that is a list, of its elements.
func appendParquet(row parquet.Row, column int, v any, kind string, element parquet.Node) parquet.Row {
	list, isList := v.([]any)
	switch {
	case v == nil:
		return append(row, parquet.NullValue().Level(0, 0, column))
	case element == nil:
		return append(row, parquet.ValueOf(text(v, kind)).Level(0, 1, column))
	case !isList:
		return append(row, parquetValue(v, kind, element).Level(0, 1, column))
	case len(list) == 0:
		return append(row, parquet.NullValue().Level(0, 1, column))
	}
	for i, e := range list {
		if e == nil {
			row = append(row, parquet.NullValue().Level(min(i, 1), 2, column))
		} else {
			row = append(row, parquetValue(e, elementType(kind), element).Level(min(i, 1), 3, column))
		}
	}
	return row
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

// parquetNodes are the Parquet types of DuckDB types. Others that all readers know have none: they become strings.
var parquetNodes = map[string]parquet.Node{
	"BOOLEAN": parquet.Leaf(parquet.BooleanType),
	"TINYINT": parquet.Int(8), "SMALLINT": parquet.Int(16), "INTEGER": parquet.Int(32), "BIGINT": parquet.Int(64),
	"UTINYINT": parquet.Uint(8), "USMALLINT": parquet.Uint(16), "UINTEGER": parquet.Uint(32), "UBIGINT": parquet.Uint(64),
	"FLOAT": parquet.Leaf(parquet.FloatType), "DOUBLE": parquet.Leaf(parquet.DoubleType),
	"HUGEINT": parquet.Leaf(parquet.DoubleType), "UHUGEINT": parquet.Leaf(parquet.DoubleType),
	"VARCHAR": parquet.String(), "ENUM": parquet.String(), "UUID": parquet.String(),
	"BLOB": parquet.Leaf(parquet.ByteArrayType), "DATE": parquet.Date(),
	"TIMESTAMP":    parquet.TimestampAdjusted(parquet.Microsecond, false), // without a time zone
	"TIMESTAMP_S":  parquet.TimestampAdjusted(parquet.Microsecond, false),
	"TIMESTAMP_MS": parquet.TimestampAdjusted(parquet.Microsecond, false),
	"TIMESTAMP_NS": parquet.TimestampAdjusted(parquet.Nanosecond, false),
	"TIMESTAMPTZ":  parquet.TimestampAdjusted(parquet.Microsecond, true),
}

// parquetNode is the Parquet type of a DuckDB type that is not nested; nil: none. A DECIMAL(width,scale) is a decimal
// if it fits 64 bits, else a DOUBLE.
func parquetNode(kind string) parquet.Node {
	width, scale, decimal := decimalOf(kind)
	switch {
	case !decimal:
		return parquetNodes[kind]
	case width > 18:
		return parquetNodes["DOUBLE"]
	case width > 9:
		return parquet.Decimal(scale, width, parquet.Int64Type)
	}
	return parquet.Decimal(scale, width, parquet.Int32Type)
}

// decimalOf reads DECIMAL(width,scale).
func decimalOf(kind string) (width, scale int, ok bool) {
	if !strings.HasPrefix(kind, "DECIMAL(") {
		return 0, 0, false
	}
	n, _ := fmt.Sscanf(kind, "DECIMAL(%d,%d)", &width, &scale)
	return width, scale, n == 2 && strings.HasSuffix(kind, ")")
}

// parquetValue converts a value of Next that is not null to one of its parquetNode.
func parquetValue(v any, kind string, node parquet.Node) parquet.Value {
	switch x := v.(type) {
	case time.Time:
		switch kind {
		case "DATE":
			v = int64(math.Floor(float64(x.Unix()) / (24 * 60 * 60)))
		case "TIMESTAMP_NS":
			v = x.UnixNano()
		default:
			v = x.UnixMicro()
		}
	case *big.Int:
		v, _ = new(big.Float).SetInt(x).Float64()
	case driver.Decimal:
		if v = x.Float64(); node.Type().Kind() != parquet.Double {
			v = x.Value.Int64()
		}
	}
	value := parquet.ValueOf(v)
	if node.Type().Kind() == parquet.Int32 {
		return parquet.Int32Value(int32(value.Int64()))
	}
	return value
}
