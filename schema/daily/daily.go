// Package daily divides the cases of long tests over days. A law whose cases take seconds each is then tested
// every day, and all of its cases are within a few days.
package daily

import (
	"os"
	"testing"
	"time"
)

// All reports whether tests run all of their cases, because PARSIMON_LONG is set.
func All() bool { return os.Getenv("PARSIMON_LONG") != "" }

// Runs reports whether a case, which has a number of 0 or more, runs today: one of every parts cases does,
// others on the next day.
func Runs(number, parts int) bool {
	day := int(time.Now().Unix() / 86400)
	return All() || number%parts == day%parts
}

// Skips reports whether a -short test leaves a case to another day, as Runs divides them. Without -short, a
// test runs all cases.
func Skips(number, parts int) bool { return testing.Short() && !Runs(number, parts) }

// Today returns the cases of a test that run today.
func Today[T any](parts int, all ...T) (today []T) {
	for i, one := range all {
		if Runs(i, parts) {
			today = append(today, one)
		}
	}
	return today
}
