package schema_test

import (
	"fmt"
	"strings"

	"parsimon/schema"
)

// A table has the meaning of a row, its key, its partitions, and the unit of each column.
func Example() {
	t := schema.Slowdowns
	fmt.Println(t.Name, "per", t.Grain, t.Key)
	for _, v := range t.Views() {
		fmt.Printf("%s: LAKE/%s/%s=…\n", v.Name, t.Name, strings.Join(v.Hive, "=…/"))
	}
	for _, c := range t.Columns {
		if c.Unit != "" {
			fmt.Println(c.Name, c.Type, c.Unit)
		}
	}
	// Output:
	// slowdowns per flow [flow_id]
	// slowdowns: LAKE/slowdowns/scenario=…/variant=…
	// slowdowns_all: LAKE/slowdowns/scenario=…/variant=…
	// size_bytes int64 bytes
	// start_ns int64 ns
	// ideal_ns int64 ns
	// fct_ns int64 ns
	// window_ns int64 ns
}
