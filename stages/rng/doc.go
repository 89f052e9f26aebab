// Package rng provides random streams that are identified by a seed, a purpose and ids.
//
//	s := rng.New(seed, rng.Bucket, flowID, hop)   // the stream of one draw
//	delay := delays[s.IntN(len(delays))]
//
// A stream needs no shared state and costs a few hashes to create, so each thing has its own: what is drawn for an
// id does not depend on which worker draws it, on when, or on what else is drawn. Streams with different keys are
// independent for the purposes of this project. They are not cryptographic.
package rng
