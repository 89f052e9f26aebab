package names_test

import (
	"fmt"

	"parsimon/schema/names"
)

func ExampleDidYouMean() {
	all := []string{"slowdown_by_service", "hottest_links", "p99_links"}
	fmt.Println("no question \"hotest_links\"" + names.DidYouMean("hotest_links", all))
	fmt.Println("no service \"*\"" + names.DidYouMean("*", []string{""}))
	// Output:
	// no question "hotest_links"; did you mean "hottest_links"?
	// no service "*"
}
