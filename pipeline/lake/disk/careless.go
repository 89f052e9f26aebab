//go:build careless

package disk

// Careful is false.
const Careful = false
