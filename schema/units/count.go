package units

import "fmt"

// Counted formats a number of things: "1 cable", "2 cables". one is the name of one of them, whose plural
// ends with s.
func Counted(n int64, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %ss", n, one)
}
