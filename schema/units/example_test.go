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
	// Output:
	// 1500 <nil>
	// 30000 <nil>
	// 0 is "0.5ns", which is no whole number of ns
	// 0.125 <nil>
	// 34 M
}
