package columns

import (
	"fmt"
	"reflect"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"

	"parsimon/schema"
)

// Names returns the columns that a view of type T has. A view is a struct with a field for each column that is read,
// tagged with its name:
//
//	Size []int64 `col:"size_bytes"`
//
// A field is a slice of int16 (-1 for null), int32, int64 or float64, or an Arrow array, such as *array.String.
func Names[T any]() (names []string) {
	t := reflect.TypeFor[T]()
	for i := range t.NumField() {
		names = append(names, t.Field(i).Tag.Get("col"))
	}
	return names
}

// Each calls do with each batch of a stream as a view. What the view refers to is valid until do returns. It does not
// close the stream: whoever opened it does.
func Each[T any](in schema.Batches, do func(v *T) error) error {
	v := new(T)
	return ForEach(in, func(rec arrow.Record) error {
		ViewOf(rec, v)
		return do(v)
	})
}

// ViewOf sets the fields of a view to the columns of a batch. It panics if the batch lacks one, or has one of another
// type.
func ViewOf[T any](rec arrow.Record, v *T) {
	fields := reflect.ValueOf(v).Elem()
	for i := range fields.NumField() {
		name := fields.Type().Field(i).Tag.Get("col")
		column := Named(rec, name)
		switch to := fields.Field(i).Addr().Interface().(type) {
		case *[]int16:
			*to = orBelow(column.(*array.Int16))
		case *[]int32:
			*to = column.(*array.Int32).Int32Values()
		case *[]int64:
			*to = column.(*array.Int64).Int64Values()
		case *[]float64:
			*to = column.(*array.Float64).Float64Values()
		case **array.String:
			*to = column.(*array.String)
		case **array.Binary:
			*to = column.(*array.Binary)
		case **array.Boolean:
			*to = column.(*array.Boolean)
		case **array.List:
			*to = column.(*array.List)
		default:
			panic(fmt.Sprintf("columns: no view of column %s as %T", name, to))
		}
	}
}
