// Command measure repeats the measurements whose figures stand in the pages of this repository.
//
//	go run ./pipeline/cmd/measure NAME [flags] [ARGUMENT …]
//
// Each measurement is one function. It runs bin/parsimon (make build) as a user would, in lakes of its
// own, and prints Markdown tables. With --write it also writes them to datasets/results/NAME.md, with commit, date and
// machine.
package main
