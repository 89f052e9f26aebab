// Package simkernel simulates one link: who crosses it, when, and what each flow loses there.
//
// It is pure: columns in, columns out; no I/O, no clock, no goroutine, no global state, and no
// allocation per packet.
package simkernel
