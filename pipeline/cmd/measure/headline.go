package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"parsimon/pipeline/cmd/measure/headline"
)

// A headliner makes one measurement of package headline.
type headliner struct {
	*bench
	values map[string][]float64
	texts  map[string]string
}

// headliners have the functions of all measurements of package headline, by name.
var headliners = map[string]func(h *headliner, ctx context.Context){
	"kernel":         (*headliner).kernel,
	"estimates":      (*headliner).estimates,
	"hosts":          (*headliner).hosts,
	"start":          (*headliner).start,
	"ingest":         (*headliner).ingest,
	"formats":        (*headliner).formats,
	"large":          (*headliner).large,
	"sweep":          (*headliner).sweep,
	"ns3":            (*headliner).ns3,
	"large-exact":    (*headliner).largeExact,
	"forecast":       (*headliner).forecast,
	"what-if":        (*headliner).whatIf,
	"transports":     (*headliner).transports,
	"parts":          (*headliner).parts,
	"questions":      (*headliner).questions,
	"tour":           (*headliner).tour,
	"accuracy":       (*headliner).accuracy,
	"5s-independent": longRun("independent"),
	"5s-flow":        longRun("flow"),
	"5s-exact":       longRun("exact"),
	"ingest-20m":     longIngest(20_000_000),
	"ingest-100m":    longIngest(100_000_000),
	"make-test":      (*headliner).makeTest,
}

// errNotHere says that a measurement needs the shared folder.
var errNotHere = errors.New("not measured here, because the folder --shared is missing")

// measureHeadline makes the measurements that are missing or older than the code, and writes the pages. A
// measurement that an argument names is made in any case. Each result is stored as soon as it is complete.
func measureHeadline(ctx context.Context, b *bench) {
	results, err := headline.Load(".")
	b.fail(err)
	digests, err := headline.Digests(ctx, ".")
	b.fail(err)
	for _, name := range b.args {
		if headline.Find(name) == nil {
			b.fail(fmt.Errorf("headline: there is no measurement %q", name))
		}
	}
	if b.err != nil {
		return
	}
	commit := b.codeCommit(ctx)
	b.startTime()
	var failures []error
	for i := range headline.Measurements {
		m := &headline.Measurements[i]
		if !b.isDue(m, results[m.Name], digests[m.Name]) {
			continue
		}
		if b.late() || ctx.Err() != nil {
			fmt.Fprintf(os.Stderr, "headline: %s: not begun\n", m.Name)
			continue
		}
		err := b.measureOne(ctx, m, results, measuredCode{commit, digests[m.Name]})
		if err != nil {
			fmt.Fprintf(os.Stderr, "headline: %s: %v\n", m.Name, err)
			if !errors.Is(err, errNotHere) {
				failures = append(failures, fmt.Errorf("%s: %w", m.Name, err))
			}
		}
	}
	b.fail(errors.Join(append(failures, headline.Write(".", results, digests))...))
}

// isDue reports whether a measurement is to be made.
func (b *bench) isDue(m *headline.Measurement, r *headline.Result, digest string) bool {
	if len(b.args) > 0 {
		return slices.Contains(b.args, m.Name)
	}
	if b.short && m.WholeOnly {
		return false
	}
	return r == nil || r.Sources != digest || !b.short && r.Form == headline.Short
}

// measuredCode is the code that was built before the first measurement.
type measuredCode struct{ commit, digest string }

// measureOne makes a measurement and stores its result.
func (b *bench) measureOne(
	ctx context.Context, m *headline.Measurement, results headline.Results, code measuredCode,
) error {
	h := &headliner{bench: b, values: map[string][]float64{}, texts: map[string]string{}}
	result := &headline.Result{Commit: code.commit, Date: time.Now().UTC().Format(time.DateOnly),
		Machine: machine(), Form: headline.Whole, Sources: code.digest, Values: h.values, Texts: h.texts}
	if b.short && !m.WholeOnly {
		result.Form = headline.Short
	}
	start := time.Now()
	headliners[m.Name](h, ctx)
	result.Seconds = time.Since(start).Round(time.Second).Seconds()
	if slices.ContainsFunc(m.Values, func(name string) bool {
		return strings.Contains(name, "before-") && len(h.values[name]) > 0
	}) {
		version := h.execute(ctx, nil, b.before, "version")
		result.Before = h.match(version, `commit ([0-9a-f]{8}[^ ,)]*)`)[0]
	}
	err := b.err
	b.err = nil // the others are measured all the same
	if err != nil {
		return err
	}
	if err := results.Add(m, result); err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "headline: %s: %.0f s\n", m.Name, result.Seconds)
	for _, name := range slices.Sorted(maps.Keys(h.values)) {
		fmt.Fprintf(os.Stderr, "  %-26s %.4g\n", name, h.values[name])
	}
	return results.Store(".")
}

// codeCommit returns the commit, and whether code differs from it. Pages that a measurement has written do
// not count.
func (b *bench) codeCommit(ctx context.Context) string {
	commit := strings.TrimSpace(b.execute(ctx, nil, "git", "describe", "--always", "--exclude=*"))
	changed := b.execute(ctx, nil, "git", "status", "--porcelain", "--", "*.go", "*.sql", "go.mod")
	if changed != "" {
		commit += "-dirty"
	}
	return commit
}

// add adds a figure of a round.
func (h *headliner) add(name string, value float64) {
	if h.err == nil {
		h.values[name] = append(h.values[name], value)
	}
}

// rounds calls a function as often as the form has rounds.
func (h *headliner) rounds(short, whole int, round func()) {
	n := whole
	if h.short {
		n = short
	}
	for range n {
		if h.err == nil {
			round()
		}
	}
}

// needsShared reports whether the shared folder exists. If not, the measurement fails with errNotHere.
func (h *headliner) needsShared() bool {
	if _, err := os.Stat(h.shared); err != nil {
		h.fail(errNotHere)
	}
	return h.err == nil
}

// costOf runs a command of a program, and returns its cost.
func (h *headliner) costOf(ctx context.Context, program string, args ...string) cost {
	h.execute(ctx, nil, program, append(args, "--quiet")...)
	return h.cost
}

// alternately calls a function with the program and, if there is one, with the earlier build. The infix of
// the names of the earlier build's figures is "before-".
func (h *headliner) alternately(call func(program, infix string)) {
	call(h.program, "")
	if h.before != "" {
		call(h.before, "before-")
	}
}
