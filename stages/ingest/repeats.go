package ingest

import (
	"cmp"
	"slices"
)

// mostCompared is the maximum number of rows of a file that are compared. If one in a thousand of them
// repeats another one, the estimated number of these rows has a standard error of about 9%.
const mostCompared = 1 << 18

// repeatedRows counts the rows of a file that repeat another one, and their bytes. Rows are equal if their
// hashes are. Of many rows, those with small hashes are compared, and all with many bytes: whether a row is
// compared depends only on its text, so that equal rows are compared or not together (P. Gibbons, "Distinct
// sampling for highly-accurate answers to distinct values queries and event reports", 2001).
type repeatedRows struct {
	most  int // rows that are compared
	rows  []rowHash
	bytes float64 // of all rows
	shift int     // rows whose hash has this number of leading zeros are compared
	large float64 // rows with more bytes are compared, too
}

// A rowHash is the hash of the text of rows, with the bytes of one of them.
type rowHash struct {
	hash  uint64
	bytes int64
	n     int64 // equal rows
}

// add adds a row.
func (r *repeatedRows) add(hash uint64, bytes int64) {
	row := rowHash{hash, bytes, 1}
	r.bytes += float64(bytes)
	if !r.compares(&row) {
		return
	}
	r.rows = append(r.rows, row)
	if len(r.rows) >= r.most {
		r.thin()
	}
}

// compares reports whether a row is compared.
func (r *repeatedRows) compares(row *rowHash) bool { return r.isSmall(row) || r.isLarge(row) }

func (r *repeatedRows) isSmall(row *rowHash) bool { return row.hash>>(64-r.shift) == 0 }

func (r *repeatedRows) isLarge(row *rowHash) bool { return r.shift > 0 && float64(row.bytes) > r.large }

// thin halves the range of hashes that are compared until there is room. A file of few different texts has
// all of its rows compared.
func (r *repeatedRows) thin() {
	enough := r.most / 4 * 3
	if r.shift == 0 {
		r.combine()
	}
	for len(r.rows) > enough {
		r.shift++
		r.large = max(r.large, r.bytes/float64(r.most/4))
		r.rows = slices.DeleteFunc(r.rows, func(row rowHash) bool { return !r.compares(&row) })
		if len(r.rows) > enough {
			r.combine()
		}
	}
}

// combine combines equal rows.
func (r *repeatedRows) combine() {
	slices.SortFunc(r.rows, func(a, b rowHash) int { return cmp.Compare(a.hash, b.hash) })
	combined := r.rows[:0]
	for _, row := range r.rows {
		last := len(combined) - 1
		if last >= 0 && combined[last].hash == row.hash {
			combined[last].n += row.n
			continue
		}
		combined = append(combined, row)
	}
	r.rows = combined
}

// A repetition is the number of rows that repeat another one, and their bytes. Both are estimates if not all
// rows were compared.
type repetition struct {
	rows       int64
	bytes      float64
	isEstimate bool
}

// count returns how many rows repeat another one.
func (r *repeatedRows) count() repetition {
	r.combine()
	of := repetition{isEstimate: r.shift > 0}
	for i := range r.rows {
		row := &r.rows[i]
		n := row.n - 1
		if !r.isLarge(row) {
			n <<= r.shift
		}
		of.rows += n
		of.bytes += float64(n) * float64(row.bytes)
	}
	return of
}
