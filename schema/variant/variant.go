// Package variant describes how an estimate was made. A Variant is part of every manifest of an estimate,
// and its fields are columns of the view variants. Its name is the directory of the estimate's tables, the
// value of column variant, and what users write after the @ in SCENARIO@VARIANT:
//
//	exact                                  the whole network
//	flow-2                                 link cases, in two passes
//	independent-cluster-0.05               link cases, one for all links that are similar to within 5%
//	exact-sampled-48                       48 windows of time of the workload
//	exact-sampled-48-confidence-90%        the same, with intervals at another level than 95%
//
// Code reads the fields. Only Parse reads a name, because users and directories have nothing else.
package variant

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// A Variant describes how an estimate was made. The zero value stands for no estimate. Variants are
// comparable.
type Variant struct {
	Estimator string `json:"estimator"`
	// Passes is the number of rounds of link simulations; 0 for an estimator that has no passes.
	Passes int `json:"passes,omitempty"`
	// ClusterError is the relative error up to which links share a link case; 0 if each link has its own.
	ClusterError float64 `json:"cluster_error,omitempty"`
	// Windows is the number of windows of time that were estimated; 0 if all flows were.
	Windows int `json:"windows,omitempty"`
	// ConfidencePercent is the level of the intervals of an estimate from windows; 0 stands for 95.
	ConfidencePercent float64 `json:"confidence_percent,omitempty"`
}

// wholeNetwork is the estimator that simulates every packet of the whole network.
const wholeNetwork = "exact"

// defaultConfidence is the level of intervals that a name does not state.
const defaultConfidence = 95

// IsZero reports whether v stands for no estimate.
func (v Variant) IsZero() bool { return v == Variant{} }

// WholeNetwork reports whether every packet of the flows was simulated in the whole network.
func (v Variant) WholeNetwork() bool { return v.Estimator == wholeNetwork }

// Sampled reports whether the estimate was made from windows of time instead of all flows.
func (v Variant) Sampled() bool { return v.Windows > 0 }

// Confidence returns the level of the intervals, in percent.
func (v Variant) Confidence() float64 { return cmp.Or(v.ConfidencePercent, defaultConfidence) }

// OfWindows returns the variant of an estimate from n windows that were estimated like v.
func (v Variant) OfWindows(n int, confidencePercent float64) Variant {
	v.Windows = n
	v.ConfidencePercent = confidencePercent
	if confidencePercent == defaultConfidence {
		v.ConfidencePercent = 0
	}
	return v
}

// String returns the name of the variant. It is empty for the zero value.
func (v Variant) String() string {
	name := v.Estimator
	if v.Passes > 0 {
		name += "-" + strconv.Itoa(v.Passes)
	}
	if v.ClusterError > 0 {
		name += "-cluster-" + shortest(v.ClusterError)
	}
	if v.Windows > 0 {
		name += "-sampled-" + strconv.Itoa(v.Windows)
	}
	if v.ConfidencePercent > 0 {
		name += "-confidence-" + shortest(v.ConfidencePercent) + "%"
	}
	return name
}

func shortest(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }

// pattern matches the names of variants. Its groups are the fields of a Variant, in order.
var pattern = regexp.MustCompile(`^([a-z][a-z0-9]{0,31})(?:-([1-9][0-9]{0,2}))?` +
	`(?:-cluster-([0-9.e+-]{1,30}))?(?:-sampled-([1-9][0-9]{0,8})(?:-confidence-([0-9.]{1,10})%)?)?$`)

// Parse is the inverse of String. It accepts exactly the names that String returns for variants other than
// the zero value. It does not know which estimators exist.
func Parse(name string) (v Variant, err error) {
	fields := pattern.FindStringSubmatch(name)
	if fields == nil {
		return v, fmt.Errorf("no variant %q", name)
	}
	v.Estimator = fields[1]
	v.Passes, _ = strconv.Atoi(fields[2]) // groups that do not match are 0
	v.ClusterError, _ = strconv.ParseFloat(fields[3], 64)
	v.Windows, _ = strconv.Atoi(fields[4])
	v.ConfidencePercent, _ = strconv.ParseFloat(fields[5], 64)
	if v.String() != name {
		return Variant{}, fmt.Errorf("no variant %q", name)
	}
	return v, nil
}

// fields is a Variant without methods.
type fields Variant

// UnmarshalJSON reads the fields or, from a lake of schema version 18 or older, the name. A variant whose
// name Parse refuses is an error.
func (v *Variant) UnmarshalJSON(text []byte) error {
	name := ""
	if json.Unmarshal(text, &name) == nil {
		parsed, err := Parse(name)
		*v = parsed
		return err
	}
	var read fields
	if err := json.Unmarshal(text, &read); err != nil {
		return err
	}
	*v = Variant(read)
	if v.IsZero() {
		return nil
	}
	_, err := Parse(v.String())
	return err
}

// Better reports whether v is a better answer of a scenario than another variant: an estimate of all flows
// before one from windows, the whole network before link cases, more passes before fewer, and links with
// their own link cases before clusters. Of two equal variants, the one whose name comes first is better.
func (v Variant) Better(than Variant) bool {
	order := cmp.Or(
		cmp.Compare(v.rank(), than.rank()),
		cmp.Compare(v.Passes, than.Passes),
		cmp.Compare(than.ClusterError, v.ClusterError),
		strings.Compare(than.String(), v.String()),
	)
	return order > 0
}

// rank returns 0 or 1 for an estimate from windows, 2 for link cases, and 3 for the whole network.
func (v Variant) rank() int {
	rank := 2
	if v.Sampled() {
		rank = 0
	}
	if v.WholeNetwork() {
		rank++
	}
	return rank
}

// WithPrefix returns the only variant whose name begins with a text. If there is none, or there are several
// without one of exactly that name, found is false.
func WithPrefix(all []Variant, text string) (v Variant, found bool) {
	for _, each := range all {
		if each.String() == text {
			return each, true
		}
		if strings.HasPrefix(each.String(), text) {
			if found {
				return Variant{}, false
			}
			v = each
			found = true
		}
	}
	return v, found
}
