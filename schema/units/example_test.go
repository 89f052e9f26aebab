package units_test

import (
	"fmt"

	"parsimon/schema/units"
)

// Quantities are whole numbers of a base unit, or errors.
func Example() {
	fmt.Println(units.Parse("1.5us", units.Duration))
	fmt.Println(units.Parse("30KB", units.Bytes))
	fmt.Println(units.Parse("0.5ns", units.Duration))
	fmt.Println(units.ParseShare("12.5%"))
	fmt.Println(units.Human(34_000_000))
	for _, date := range []string{"1970-01-01T00:00:01.5Z", "1970-01-01 00:00:02", "1970-01-01 01:00:03+01:00",
		"1969-12-31 23:00:00Z"} {
		fmt.Println(units.ParseDate(date))
	}
	// Output:
	// 1500 <nil>
	// 30000 <nil>
	// 0 is "0.5ns", which is not a whole number of ns
	// 0.125 <nil>
	// 34 M
	// 1500000000 <nil>
	// 2000000000 <nil>
	// 3000000000 <nil>
	// -3600000000000 out of range
}
