// Package simkernel has the parts that the packet simulators share: transports and their constants, link
// speeds, ideal FCTs, and the blocks that link cases exchange.
//
//	linkcase    one link and the flows that cross it
//	network     every packet of a whole network
//
// The packages are pure: columns in, columns out. They import nothing else of this module, do no I/O and have
// no mutable package state. No result depends on the clock. Package network reads it only to choose how many
// workers take part.
package simkernel

// Version is part of Params.AppendIdentity. It must be raised, together with MethodVersion of package
// pipeline, whenever linkcase.Kernel computes a different Result from the same Case and Params.
const Version = 10
