// Package faults has the tests of what a lake promises when something goes wrong: a killed process, a failing disk,
// damaged bytes, a lake or a trace from a stranger, several commands at once.
//
//	kill_test.go        kill -9 at a random moment
//	operations_test.go  a crash, an I/O error and a full disk at every file operation in turn
//	bytes_test.go       flipped and cut bytes in every kind of file
//	hostile_test.go     lakes made to escape, to mislead or to block
//	together_test.go    every pair of commands at once, with readers
//
// The tests drive the program parsimon, built with the tag faults (package disk), and look at lakes as queries do.
// After each fault readers see the snapshot of before or of after; the same command completes; and the rows are those
// of an undisturbed run.
//
// Worlds of the tests are in memory (/dev/shm) where there is room. Readers verify the bytes of each file in each
// round, and decode those that they have not seen before.
//
// By default about a tenth of the rounds run, drawn from seed 1. PARSIMON_LONG=1 (make faults) runs all of them, as
// many at once as there are cores, from a seed that each test draws and prints, in about PARSIMON_FAULTS_TIME, of which
// each test has a share; a test says what it had no time for. PARSIMON_SEED sets the seed. PARSIMON_FAULTS_TABLE names
// a file of the rounds that were done; with one of an earlier run, the tests go on with the rounds that it lacks, or
// that failed.
package faults
