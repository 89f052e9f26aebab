package workload

import (
	"fmt"
	"math"
	"math/bits"
	"sort"
	"strconv"
	"strings"

	"parsimon/stages/rng"
	"parsimon/stages/topology"
)

// SizePoint is one point of a flow-size distribution: Percent of the flows have at most Bytes.
type SizePoint struct {
	Bytes   int64
	Percent float64
}

// SizeCDF is a distribution of flow sizes, piecewise linear between its points. Sizes are whole bytes and at
// least 1. Between two points a < b all sizes from a+1 to b are equally likely. The fraction of flows of at
// most a point's size is therefore exactly that of the point. Two points with the same bytes, or a first
// point above 0 percent, give that size this probability.
type SizeCDF struct {
	points []SizePoint
	pieces []sizePiece
	mean   float64
}

// sizePiece covers the quantiles in [from, to): the sizes base+1 to base+span, or, if span is 0, the size
// base.
type sizePiece struct {
	from, to    float64
	scale       float64 // span / (to − from)
	base, span  int64
	probability float64
}

// maxSizeBytes is the maximum size of a flow, far below the limits of the kernel's integers on the slowest
// link.
const maxSizeBytes = int64(1) << 44

// NewSizeCDF returns the distribution of the given points. Bytes are 0 to 2^44, percent is 0 to 100, neither
// may decrease, the last percent is 100, and no flow may have 0 bytes. Errors name the point.
func NewSizeCDF(points []SizePoint) (*SizeCDF, error) {
	if len(points) == 0 {
		return nil, fmt.Errorf("has no points")
	}
	c := &SizeCDF{points: append([]SizePoint(nil), points...)}
	last := SizePoint{Bytes: -1}
	for i, p := range points {
		bad := func(format string, args ...any) error {
			return fmt.Errorf("point %d (%d bytes, %v%%): %s", i+1, p.Bytes, p.Percent, fmt.Sprintf(format, args...))
		}
		switch {
		case p.Bytes < 0 || p.Bytes > maxSizeBytes:
			return nil, bad("bytes must be 0 to %d", maxSizeBytes)
		case !(p.Percent >= 0 && p.Percent <= 100):
			return nil, bad("percent must be 0 to 100")
		case p.Bytes < last.Bytes:
			return nil, bad("bytes must not decrease")
		case p.Percent < last.Percent:
			return nil, bad("percent must not decrease")
		case p.Bytes == 0 && p.Percent > 0:
			return nil, bad("no flow can have 0 bytes")
		}
		if p.Percent > last.Percent {
			q := sizePiece{from: last.Percent / 100, to: p.Percent / 100, base: last.Bytes, span: p.Bytes - last.Bytes}
			if i == 0 || q.span == 0 {
				q.base = p.Bytes
				q.span = 0
			}
			q.probability = q.to - q.from
			q.scale = float64(q.span) / q.probability
			c.pieces = append(c.pieces, q)
			c.mean += q.probability * q.mean()
		}
		last = p
	}
	if last.Percent != 100 {
		return nil, fmt.Errorf("ends at %v%%, must end at 100", last.Percent)
	}
	return c, nil
}

func (q *sizePiece) mean() float64 {
	if q.span == 0 {
		return float64(q.base)
	}
	return float64(q.base) + float64(q.span+1)/2
}

// Points returns the points of the distribution.
func (c *SizeCDF) Points() []SizePoint { return append([]SizePoint(nil), c.points...) }

// Mean returns the expected size in bytes. It equals the mean of Size for uniform u.
func (c *SizeCDF) Mean() float64 { return c.mean }

// Size is the quantile function. For u in [0, 1) it returns the size in bytes, at least 1, that a fraction u
// of the flows is below.
func (c *SizeCDF) Size(u float64) int64 {
	q := &c.pieces[sort.Search(len(c.pieces)-1, func(k int) bool { return u < c.pieces[k].to })]
	if q.span == 0 {
		return q.base
	}
	return q.base + min(int64((u-q.from)*q.scale), q.span-1) + 1
}

// ParseSizeCDF parses lines of "bytes percent"; # begins a comment. Errors name the source, as given by name,
// and the line.
func ParseSizeCDF(name string, data []byte) (*SizeCDF, error) {
	var points []SizePoint
	n := 0
	for line := range strings.Lines(string(data)) {
		n++
		text, _, _ := strings.Cut(line, "#")
		f := strings.Fields(text)
		if len(f) == 0 {
			continue
		}
		if len(f) != 2 {
			return nil, fmt.Errorf("sizes %s: line %d: want \"bytes percent\", have %d fields", name, n, len(f))
		}
		b, err := strconv.ParseInt(f[0], 10, 64)
		if err != nil {
			return nil, fmt.Errorf("sizes %s: line %d: bytes is %q, want a whole number", name, n, f[0])
		}
		p, err := strconv.ParseFloat(f[1], 64)
		if err != nil {
			return nil, fmt.Errorf("sizes %s: line %d: percent is %q, want a number", name, n, f[1])
		}
		points = append(points, SizePoint{b, p})
	}
	c, err := NewSizeCDF(points)
	if err != nil {
		return nil, fmt.Errorf("sizes %s: %w", name, err)
	}
	return c, nil
}

// ReadSizeCDF reads a file as ParseSizeCDF does.
func ReadSizeCDF(path string) (*SizeCDF, error) {
	data, err := topology.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("sizes: %w", err)
	}
	return ParseSizeCDF(path, data)
}

// LogNormal is the distribution of exp(Mu + Sigma·Z) for standard normal Z: the paper's inter-arrival times
// (§4.1), where Sigma is the burstiness, 1 for low and 2 for high.
type LogNormal struct{ Mu, Sigma float64 }

// NewLogNormal returns the log-normal distribution of the given mean and shape. The mean of exp(Mu + Sigma·Z)
// is exp(Mu + Sigma²/2).
func NewLogNormal(mean, sigma float64) LogNormal {
	return LogNormal{Mu: math.Log(mean) - sigma*sigma/2, Sigma: sigma}
}

// Draw draws a value. It takes two numbers of the stream.
func (d LogNormal) Draw(s *rng.Stream) float64 { return math.Exp(d.Mu + float64(d.Sigma*s.Normal())) }

// Exponential is the distribution of the inter-arrival times of a Poisson process with the given mean.
type Exponential struct{ Mean float64 }

// Draw draws a value by inversion. It takes one number of the stream.
func (d Exponential) Draw(s *rng.Stream) float64 { return -d.Mean * math.Log(1-s.Float64()) }

type groupPair struct{ src, dst int32 }

// aliasTable draws a pair by weight with one random number and one memory access. It is Walker's alias
// method, built as by Vose (1991).
type aliasTable []aliasCell

type aliasCell struct {
	keep       uint64 // own is drawn if the fraction is below keep / 2^64, else other
	own, other groupPair
}

// newAliasTable builds the table in time linear in the number of pairs. sum is the sum of the weights and
// must be above 0. Each cell has an equal share of the draws and divides it between two pairs.
func newAliasTable(pairs []groupPair, weights []float64, sum float64) aliasTable {
	t := make(aliasTable, len(pairs))
	scaled := make([]float64, len(pairs))
	var small, large []int32
	for i, w := range weights {
		scaled[i] = w / sum * float64(len(pairs))
		if scaled[i] < 1 {
			small = append(small, int32(i))
		} else {
			large = append(large, int32(i))
		}
	}
	for i, p := range pairs {
		t[i] = aliasCell{math.MaxUint64, p, p}
	}
	for len(small) > 0 && len(large) > 0 {
		s := small[len(small)-1]
		l := large[len(large)-1]
		small = small[:len(small)-1]
		t[s].keep = uint64(scaled[s] * 0x1p64)
		t[s].other = pairs[l]
		scaled[l] -= 1 - scaled[s]
		if scaled[l] < 1 {
			large = large[:len(large)-1]
			small = append(small, l)
		}
	}
	return t // cells that remain because of rounding keep their own pair
}

// draw uses the high bits of x × len for the cell and the low ones for the choice within it.
func (t aliasTable) draw(x uint64) groupPair {
	i, fraction := bits.Mul64(x, uint64(len(t)))
	c := &t[i]
	if fraction < c.keep {
		return c.own
	}
	return t[i].other
}
