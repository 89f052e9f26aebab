//go:build !careless

package disk

// Careful is false only in the program that measure durability builds, with the tag careless, to compare with: it
// neither makes files durable nor computes or verifies digests of data files.
const Careful = true
