// Package simkernel simulates one link: who crosses it, when, and what each flow loses there.
//
// It is pure: columns in, columns out; no I/O, no clock, no goroutine, no global state, and no
// allocation per packet.
package simkernel

// Version changes whenever the link kernel comes to another Result for the same Case and Params, so
// that results stored by an older one are not taken for its own.
const Version = 2
