package ingest

import "math"

const (
	// exactRows is the number of different rows of a file up to which repeated rows are counted exactly.
	exactRows = 1 << 18
	// repeatBits is the number of bits that count the repeated rows of larger files. They take 16 MB. The
	// standard error of the count of 10⁹ rows is 0.05% of them, of 10⁸ rows 0.007%.
	repeatBits = 1 << 27
	// largeShare is the share of all bytes so far from which on rows are compared exactly. Each of them makes
	// the sum larger by this share, so 10¹⁵ bytes have at most 35/largeShare different ones.
	largeShare = 1. / 4096
)

// repeatedRows counts the rows of a file that repeat another one, and their bytes. Rows are equal if their
// hashes are.
//
// The different rows of a small file are a set. A large file has a table of bits, in which each row sets one:
// that of a repeated row is set already. That of another row is set with a probability p, the share of bits
// that are set. If it is not, p / (1 - p) rows are subtracted from the count, which therefore has the right
// expectation (compare the linear counting of K.-Y. Whang, B. Vander-Zanden and H. Taylor, "A linear-time
// probabilistic counting algorithm for database applications", 1990). Rows with many bytes are still added to
// the set: otherwise, one of them could appear to repeat half of the bytes of a file.
type repeatedRows struct {
	set   map[uint64]struct{} // hashes of the first rows, and of those with many bytes
	bits  []uint64            // nil for a small file
	ones  int                 // bits that are set
	bytes float64             // of all rows
	least float64             // rows that certainly repeat others, because their hashes are in the set

	again repetition // with variances instead of standard errors
}

// A repetition is the number of rows that repeat another one, and their bytes. The standard errors are 0 if
// both are exact.
type repetition struct {
	rows, bytes           float64
	rowsError, bytesError float64
}

// isMany reports whether a share of the rows or of the bytes repeats others, with three standard errors to
// spare.
func (n *repetition) isMany(share, allRows, allBytes float64) bool {
	return n.rows > 0 && (n.rows-3*n.rowsError >= share*allRows || n.bytes-3*n.bytesError >= share*allBytes)
}

// add adds a row.
func (r *repeatedRows) add(hash uint64, bytes int64) {
	b := float64(bytes)
	r.bytes += b
	switch {
	case r.bits == nil:
		r.addExactly(hash, b)
		if len(r.set) == exactRows {
			r.toBits()
		}
	case b > largeShare*r.bytes:
		r.addExactly(hash, b)
		r.setBit(hash)
	default:
		r.estimate(hash, b)
	}
}

func (r *repeatedRows) addExactly(hash uint64, bytes float64) {
	if r.set == nil {
		r.set = map[uint64]struct{}{}
	}
	different := len(r.set)
	r.set[hash] = struct{}{}
	if len(r.set) == different {
		r.least++
		r.again.rows++
		r.again.bytes += bytes
	}
}

// toBits begins the table of bits with the rows so far.
func (r *repeatedRows) toBits() {
	r.bits = make([]uint64, repeatBits/64)
	for hash := range r.set {
		r.setBit(hash)
	}
}

// setBit sets the bit of a row, and reports whether it was set already.
func (r *repeatedRows) setBit(hash uint64) bool {
	word := &r.bits[hash/64%uint64(len(r.bits))]
	bit := uint64(1) << (hash % 64)
	if *word&bit != 0 {
		return true
	}
	*word |= bit
	r.ones++
	return false
}

func (r *repeatedRows) estimate(hash uint64, bytes float64) {
	p := float64(r.ones) / float64(64*len(r.bits))
	if r.setBit(hash) {
		r.again.rows++
		r.again.bytes += bytes
		return
	}
	odds := p / (1 - p)
	r.again.rows -= odds
	r.again.bytes -= bytes * odds
	// The variance of such a row is p / (1 - p). It is added if the bit is not set, with probability 1 - p.
	variance := odds / (1 - p)
	r.again.rowsError += variance
	r.again.bytesError += bytes * bytes * variance
}

// count returns how many rows repeat another one.
func (r *repeatedRows) count() repetition {
	of := r.again
	of.rows = max(r.least, of.rows)
	of.bytes = max(0, of.bytes)
	of.rowsError = math.Sqrt(of.rowsError)
	of.bytesError = math.Sqrt(of.bytesError)
	return of
}
