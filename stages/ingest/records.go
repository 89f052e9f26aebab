package ingest

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"parsimon/queries/duckdb"
	"parsimon/schema"
	"parsimon/schema/names"
	"parsimon/schema/units"
	"parsimon/stages/ingest/connections"
	"parsimon/stages/topology"
)

// FileStats counts the rows of a source file: Rows + Reverse = Records + Rejects.
type FileStats struct {
	Rows int64 `json:"rows"`
	// Reverse is the number of rows with bytes in both directions, each of which becomes two flows.
	Reverse int64 `json:"second_directions,omitempty"`
	Records int64 `json:"records"`
	Rejects int64 `json:"rejects"`
	// SetAside is the number of rejects that declare themselves not to be flows, such as log lines without
	// data and refused connections. They do not count against MaxRejects.
	SetAside  int64         `json:"set_aside"`
	Reasons   []RejectCount `json:"reasons"`     // most frequent first
	AnyFlowID bool          `json:"any_flow_id"` // rows have ids
	Mapping   *Mapping      `json:"-"`           // that fits the file
	// RecordsFile and RejectsFile are Parquet files of tables records and rejects, in TmpDir. RejectsFile
	// exists only if there are rejects.
	RecordsFile string `json:"-"`
	RejectsFile string `json:"-"`
	// Waits is the number of rows of the Parquet file WaitsFile, which has the dependencies of flows.
	Waits        int64  `json:"-"`
	WaitsFile    string `json:"-"`
	ComputeSteps int64  `json:"-"`

	// XXH3 is the hash of the text that was read, as in Digests; 0: unknown.
	XXH3 uint64 `json:"-"`

	medianDayNS int64 // the day in which the median row starts
}

// File reads source file number n of the workload with the mapping that fits it, and writes its rows as
// tables records and rejects. Errors name the file.
func (in *Ingester) File(ctx context.Context, of []*Mapping, file string, n int32) (FileStats, error) {
	stats, err := in.file(ctx, of, file, n)
	if err != nil {
		err = cmp.Or(ctx.Err(), inFile(file, err))
	}
	return stats, err
}

// inFile adds the name of the file to an error, unless the error has it.
func inFile(file string, err error) error {
	if strings.HasPrefix(err.Error(), "flow file ") {
		return err
	}
	return fmt.Errorf("flow file %s: %w", file, err)
}

// fileWork is a source file that is read.
type fileWork struct {
	m         *Mapping
	file, dir string // the source, and the directory of intermediate files
	n         int32  // number of the source
	src       rowSource
	regular   *regularRows // the rows that are not in src; nil: none
}

// makeDir makes the directory of a file's intermediate files.
func (in *Ingester) makeDir(w *fileWork) error {
	w.dir = filepath.Join(in.o.TmpDir, fmt.Sprintf("source-%d", w.n))
	return os.Mkdir(w.dir, 0o755)
}

// file processes one source file in the steps of the package comment: stage, typed, addresses, judge. Records
// and rejects are left in TmpDir. Intermediate files are written to a directory that is removed.
func (in *Ingester) file(ctx context.Context, of []*Mapping, file string, n int32) (stats FileStats,
	err error) {
	w := fileWork{file: file, n: n}
	if err := in.makeDir(&w); err != nil {
		return stats, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(w.dir)) }()
	if w.m, w.src, err = in.choose(ctx, of, file, w.dir); err != nil {
		return stats, err
	}
	return stats, in.process(ctx, w, &stats)
}

// process judges the staged rows of a file, and adds the remarks about all of its rows.
func (in *Ingester) process(ctx context.Context, w fileWork, stats *FileStats) error {
	stats.Mapping = w.m
	stats.Rows = w.src.rows
	stats.XXH3 = w.src.xxh3
	if w.regular != nil {
		stats.Rows += w.regular.n + w.regular.rejects.n
	}
	if stats.Rows == 0 {
		return errors.New("has no flows")
	}
	if w.src.openEnd {
		in.note("end", openEnd(w.file), "")
	}
	if w.src.noted > 0 {
		in.note("mapping", w.file, " "+w.m.note[1])
	}
	if w.src.rows == 0 {
		err := in.remarkRegular(ctx, w, stats)
		return cmp.Or(err, in.writeRejects(ctx, w, 0, stats))
	}
	typed := filepath.Join(w.dir, "typed.parquet")
	if err := in.judgeStaged(ctx, w, typed, stats); err != nil {
		return err
	}
	stats.RecordsFile = filepath.Join(in.o.TmpDir, recordsName(w.n))
	stats.RejectsFile = filepath.Join(in.o.TmpDir, fmt.Sprintf("rejects-%d.parquet", w.n))
	if err := in.exec(ctx, copyTo(schema.Records, step("records", nil), stats.RecordsFile)); err != nil {
		return err
	}
	if w.m.Records {
		if err := in.noteRepeats(ctx, w, stats.RecordsFile); err != nil {
			return err
		}
	}
	if err := in.writeWaits(ctx, w, typed, stats); err != nil {
		return err
	}
	typedRows, err := in.refuse(ctx, w.m, w.src, typed, stats)
	if err != nil {
		return err
	}
	return in.writeRejects(ctx, w, typedRows, stats)
}

// recordsName is the name of the Parquet file of a source's staged records.
func recordsName(n int32) string { return fmt.Sprintf("records-%d.parquet", n) }

// judgeStaged creates view judged of the staged rows, and adds the remarks that depend on it. The mapping's
// rows are left in a Parquet file.
func (in *Ingester) judgeStaged(ctx context.Context, w fileWork, typed string, stats *FileStats) (err error) {
	if err := in.exec(ctx, "CREATE OR REPLACE TEMP VIEW staged AS "+w.src.relation); err != nil {
		return err
	}
	if stats.AnyFlowID, err = in.typed(ctx, w.m, w.src, typed); err != nil {
		return err
	}
	stats.AnyFlowID = stats.AnyFlowID || w.regular != nil && w.regular.hasIDs
	if err := in.addresses(ctx); err != nil {
		return err
	}
	if err := in.judge(ctx, w, stats); err != nil || !w.m.Records {
		return err
	}
	return errors.Join(in.noteSampling(ctx, w), in.noteClock(ctx, w))
}

// remarkRegular checks a file whose rows are all regular, and adds the remarks about it.
func (in *Ingester) remarkRegular(ctx context.Context, w fileWork, stats *FileStats) error {
	r := w.regular
	if _, _, err := boundsOfDay(r.days, r, stats); err != nil {
		return err
	}
	stats.AnyFlowID = r.hasIDs
	if !w.m.Records {
		return nil
	}
	if r.mayBeStuck(0, 0, math.MaxInt64, 0) {
		return errIrregular
	}
	if err := in.noteSampling(ctx, w); err != nil {
		return err
	}
	var quarters, timed int64
	for q, n := range r.quarters {
		timed += n
		if n > r.quarters[quarters] {
			quarters = q
		}
	}
	in.noteShift(w.file, quarters, r.quarters[quarters], timed)
	return in.noteRepeats(ctx, w, "")
}

// repeatsNoted is the share of a file's records, or of their bytes, above which rows that repeat others are
// noted. A flow log has one record per connection, time and observer, and few of them are equal by chance.
const repeatsNoted = 0.001

// noteRepeats adds a note if a large share of the rows of a flow log repeat others, as if the log had been
// written twice. recordsFile has the records of the staged rows; empty: there are none.
func (in *Ingester) noteRepeats(ctx context.Context, w fileWork, recordsFile string) error {
	var again repetition
	var all, allBytes float64
	if recordsFile != "" {
		query := step("repeats", values{"records": duckdb.ScanParquet(recordsFile)})
		if err := in.query(ctx, query, &again.rows, &again.bytes, &all, &allBytes); err != nil {
			return err
		}
	}
	if w.regular != nil {
		regular := w.regular.repeats.count()
		again.rows += regular.rows
		again.bytes += regular.bytes
		again.rowsError = regular.rowsError
		again.bytesError = regular.bytesError
		all += float64(w.regular.n)
		allBytes += w.regular.bytes
	}
	if again.isMany(repeatsNoted, all, allBytes) {
		about := ""
		if again.rowsError > 0 {
			about = "about "
		}
		in.note("repeats", w.file, fmt.Sprintf(": %s%.0f of %.0f rows repeat another row of their file, %s of %s "+
			"bytes: they count as separate records; if the exporter wrote them twice, ingest the file without them",
			about, again.rows, all, units.Human(again.bytes), units.Human(allBytes)))
	}
	return nil
}

// refuse restricts views typed and judged to the rows that are records. It stores the reasons of the others
// in table refused, and counts them. It returns the number of all typed rows. A mapping that yields a row
// several times is an error. The built-in ones do not.
func (in *Ingester) refuse(ctx context.Context, m *Mapping, src rowSource, typed string, stats *FileStats) (
	rows int64, err error) {
	from := duckdb.ScanParquet(typed)
	records := duckdb.ScanParquet(stats.RecordsFile)
	var directions int64
	err = in.query(ctx, "SELECT count(*) FROM directions", &directions)
	if err == nil {
		err = in.exec(ctx, step("refused", values{"records": records}))
	}
	if err != nil {
		return 0, err
	}
	distinct := "count(*)"
	if m.foreign {
		distinct = `(SELECT count(DISTINCT "row") FROM ` + from +
			` SEMI JOIN (FROM staged WHERE broken = '') USING ("row"))`
	}
	var different int64
	err = in.query(ctx, "SELECT count(*), "+distinct+", (SELECT count(*) FROM "+records+") FROM "+from, &rows,
		&different, &stats.Records)
	if err == nil && (rows+src.broken > src.rows || different < rows) {
		err = fmt.Errorf("mapping %s: yields a row of the source more than once, or one that the source does not "+
			"have; the second direction of a record is column %s", m.Name, reverseBytes)
	}
	stats.Reverse = directions - rows
	stats.Rejects = src.rows + stats.Reverse - stats.Records
	return rows, err
}

// writeRejects writes the rows that are not records: refused, broken, or omitted by a WHERE of the mapping.
// typed is the number of staged rows that the mapping yields.
func (in *Ingester) writeRejects(ctx context.Context, w fileWork, typed int64, stats *FileStats) (err error) {
	aside := map[string]bool{
		afterCount: true, afterEnd: true, noBytes: true, offFabric: true, acksAlone: true,
	}
	staged := ""
	if stats.Rejects > 0 {
		staged = stats.RejectsFile
		if err := in.writeStagedRejects(ctx, w, typed, staged, aside); err != nil {
			return err
		}
	}
	switch {
	case w.regular != nil && stats.Rejects+w.regular.rejects.n > 0:
		stats.Reasons, err = w.regular.writeRejects(ctx, w.file, staged)
		stats.Rejects += w.regular.rejects.n
		for i := range w.regular.format.aside {
			w.regular.format.aside[i].addReasons(aside)
		}
		if staged != "" {
			err = errors.Join(err, os.Remove(staged))
		}
	case staged != "":
		stats.Reasons, err = in.reasons(ctx, duckdb.ScanParquet(staged))
	}
	if err != nil {
		return err
	}
	stats.SetAside = 0
	for i, r := range stats.Reasons {
		stats.Reasons[i].SetAside = aside[r.Reason]
		if aside[r.Reason] {
			stats.SetAside += r.Rows
		}
		if r.Reason == outOfTime {
			in.note("out of time", w.file, fmt.Sprintf(": %d rows start over 15 days from %s, the day of the median "+
				"row, and are rejected; if those are the good ones, the clock of the others is wrong", r.Rows,
				time.Unix(0, stats.medianDayNS).UTC().Format(time.DateOnly)))
		}
	}
	return in.addUnknown(ctx, w, stats.Reasons)
}

// addReasons adds the reasons for which rows are not flows by their own account.
func (c *asideColumn) addReasons(to map[string]bool) {
	for _, text := range c.texts {
		to[c.says+text] = true
	}
}

// writeStagedRejects writes the staged rows that are not records to a Parquet file of table rejects. It adds
// the reasons that do not count as faults to aside.
func (in *Ingester) writeStagedRejects(ctx context.Context, w fileWork, typed int64, file string,
	aside map[string]bool) error {
	query := step("rejects", values{"file": duckdb.Quote(w.file), "left_out": typed+w.src.broken < w.src.rows,
		"records": duckdb.ScanParquet(filepath.Join(in.o.TmpDir, recordsName(w.n)))})
	if err := in.exec(ctx, copyTo(schema.Rejects, query, file)); err != nil {
		return err
	}
	return in.each(ctx, "SELECT DISTINCT reason FROM refused WHERE aside", func(rows *sql.Rows) error {
		var reason string
		err := rows.Scan(&reason)
		aside[reason] = true
		return err
	})
}

// reasons counts rejects by reason, most frequent first. The example does not depend on the files that
// contain the rejects.
func (in *Ingester) reasons(ctx context.Context, from string) (list []RejectCount, err error) {
	err = in.each(ctx, step("reasons", values{"rejects": from}), func(rows *sql.Rows) error {
		var r RejectCount
		err := rows.Scan(&r.Reason, &r.Rows, &r.Example)
		list = append(list, r)
		return err
	})
	return list, err
}

// These are the reasons of rows whose addresses are not hosts.
const (
	unknownSrc = "src is not a host of the topology"
	unknownDst = "dst is not a host of the topology"
)

const maxUnknown = 20

// An UnknownAddress is an address that is not a host of the topology, with the rows that were rejected
// because of it.
type UnknownAddress struct {
	Address string `json:"address"`
	Rows    int64  `json:"rows"`
	Bytes   int64  `json:"bytes"`
	// Switch is the row of the hosts table that assigns the address to a switch.
	Switch string `json:"switch,omitempty"`
}

// hostsRules are the ranges of a hosts table that match an address, those that match its neighborhood (/24,
// or /64 for IPv6), and all others.
func hostsRules(address string) (near, all string) {
	near = address
	all = "0.0.0.0/0"
	if a, err := netip.ParseAddr(strings.TrimSpace(address)); err == nil {
		bits := 24
		if !a.Is4() {
			bits = 64
			all = "::/0"
		}
		near = netip.PrefixFrom(a, bits).Masked().String()
	}
	return near, all
}

// addUnknown adds the addresses that are not hosts to the reasons, those with the most bytes first.
func (in *Ingester) addUnknown(ctx context.Context, w fileWork, reasons []RejectCount) error {
	for i := range reasons {
		end := slices.Index([]string{unknownSrc, unknownDst}, reasons[i].Reason)
		if end < 0 {
			continue
		}
		most, err := in.mostUnknown(ctx, w, end)
		if err != nil {
			return err
		}
		for j := range most {
			most[j].Switch = in.book.isSwitch(in.o.Hosts, most[j].Address)
		}
		reasons[i].Unknown = most
	}
	return nil
}

// mostUnknown returns the addresses of an end that are not hosts. end is 0 for the source and 1 for the
// destination.
func (in *Ingester) mostUnknown(ctx context.Context, w fileWork, end int) (most unknownAddresses, err error) {
	limit := maxUnknown
	if w.regular != nil {
		limit = math.MaxInt64
	}
	if w.src.rows > 0 {
		query := step("unknown", values{"reason": []string{unknownSrc, unknownDst}[end], "most": limit})
		err = in.each(ctx, query, func(rows *sql.Rows) error {
			var u UnknownAddress
			err := rows.Scan(&u.Address, &u.Rows, &u.Bytes)
			if w.regular != nil {
				w.regular.addresses[u.Address].addTo(&u, end)
			}
			most.add(u)
			return err
		})
	}
	if w.regular != nil {
		for address, a := range w.regular.addresses {
			u := UnknownAddress{Address: address}
			a.addTo(&u, end)
			if u.Rows > 0 {
				most.add(u)
			}
		}
	}
	most.cut()
	return most, err
}

// unknownAddresses collects the addresses with the most bytes.
type unknownAddresses []UnknownAddress

func (m *unknownAddresses) add(u UnknownAddress) {
	*m = append(*m, u)
	if len(*m) == 50*maxUnknown {
		m.cut()
	}
}

// cut keeps the first maxUnknown addresses.
func (m *unknownAddresses) cut() {
	slices.SortFunc(*m, func(a, b UnknownAddress) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Address, b.Address))
	})
	*m = (*m)[:min(len(*m), maxUnknown)]
}

// AddReasons adds up lists of reasons, most rows first.
func AddReasons(lists ...[]RejectCount) []RejectCount {
	return addUp(slices.Concat(lists...), func(r RejectCount) string { return r.Reason },
		func(r RejectCount) int64 { return r.Rows }, func(a *RejectCount, b RejectCount) {
			a.Rows += b.Rows
			all := addUp(slices.Concat(a.Unknown, b.Unknown), func(u UnknownAddress) string { return u.Address },
				func(u UnknownAddress) int64 { return u.Bytes }, (*UnknownAddress).add)
			a.Unknown = all[:min(len(all), maxUnknown)]
		})
}

func (u *UnknownAddress) add(v UnknownAddress) {
	u.Rows = u.Rows + v.Rows
	u.Bytes = u.Bytes + v.Bytes
}

// addUp adds the entries with equal names, and sorts the result by a number, the largest first.
func addUp[T any](list []T, name func(T) string, number func(T) int64, add func(to *T, v T)) (all []T) {
	for _, v := range list {
		if i := slices.IndexFunc(all, func(a T) bool { return name(a) == name(v) }); i >= 0 {
			add(&all[i], v)
		} else {
			all = append(all, v)
		}
	}
	slices.SortFunc(all, func(a, b T) int {
		return cmp.Or(cmp.Compare(number(b), number(a)), cmp.Compare(name(a), name(b)))
	})
	return all
}

// String returns the reason with its number of rows and an example.
func (r RejectCount) String() string {
	return fmt.Sprintf("%d × %s (first: %.120s)", r.Rows, r.Reason, r.Example)
}

// Advice returns the addresses with the most bytes that are not hosts, and how to keep their flows. It is
// empty if the reason is another one.
func (r RejectCount) Advice() string {
	if len(r.Unknown) == 0 {
		return ""
	}
	most := names.Of(r.Unknown[:min(5, len(r.Unknown))],
		func(u UnknownAddress) string { return fmt.Sprintf("%s with %d bytes", u.Address, u.Bytes) })
	text := "most bytes: " + strings.Join(most, ", ") + ". "
	hint := r.Unknown[0].Switch
	if hint != "" {
		return text + hint
	}
	near, all := hostsRules(r.Unknown[0].Address)
	return text + fmt.Sprintf("To keep their flows, ingest them with a table (parsimon ingest --hosts TABLE, "+
		"then parsimon run --workload) that says at which host NODE of the topology they enter, such as a "+
		"gateway: line %s,NODE for the first and its neighbors, %s,NODE for all others", near, all)
}

// noteSampling adds a note if most TCP records with data have one packet and do not state a rate, because a
// connection that is not sampled has more packets. It also adds one if rows state a rate that differs from
// that of the options.
func (in *Ingester) noteSampling(ctx context.Context, w fileWork) error {
	var single, tcp, scaled, all int64
	if w.src.rows > 0 {
		judged := in.o.SamplingRate > 0 || w.regular != nil && w.regular.single > 0
		if !judged { // rows are judged only if there can be a note
			err := in.query(ctx, "SELECT count(*) FROM typed WHERE packets = 1 AND protocol = 6 AND "+
				"sampling_rate IS NULL AND sampled IS NOT TRUE", &single)
			if err != nil || single == 0 {
				return err
			}
		}
		if err := in.query(ctx, step("rates", nil), &single, &tcp, &scaled, &all); err != nil {
			return err
		}
	}
	if w.regular != nil {
		single += w.regular.single
		tcp += w.regular.tcp
		scaled += w.regular.stated
		all += w.regular.n
	}
	switch {
	case in.o.SamplingRate == 0 && single > 0 && 2*single > tcp:
		in.note("looks sampled", w.file, fmt.Sprintf(": %d of %d records of TCP with data have one packet, as if "+
			"packets were sampled, and rows do not say the rate: if the exporter samples one packet in N, give "+
			"--sampling-rate N", single, tcp))
	case in.o.SamplingRate > 0 && scaled > 0:
		in.note("rate", w.file, fmt.Sprintf(": --sampling-rate has no effect on %d of %d records: they have a "+
			"rate of their own, or their bytes are estimated from samples already", scaled, all))
	}
	return nil
}

// A Gap is a time without starts of flows, from FromNS to before ToNS, that a complete log would not have.
type Gap struct {
	FromNS int64 `json:"from_ns"`
	ToNS   int64 `json:"to_ns"`
}

// Notes returns remarks about the flows that start from fromNS to toNS, for the user.
func (s *MergeStats) Notes(fromNS, toNS int64) (notes []string) {
	if s.Sampling != "" {
		notes = append(notes, s.Sampling)
	}
	within := slices.DeleteFunc(slices.Clone(s.Gaps), func(g Gap) bool {
		return g.FromNS < fromNS ||
			g.ToNS > toNS
	})
	sum := int64(0)
	for _, g := range within {
		sum += g.ToNS - g.FromNS
	}
	if len(within) > 0 {
		longest := within[0]
		least := ""
		if len(s.Gaps) >= connections.MostGaps {
			least = "at least "
		}
		notes = append(notes, fmt.Sprintf("no flow starts in %s%s (%.2g%% of the time), though at the mean rate "+
			"some would, the longest from %s for %v: if the log lacks records there, loads are too low", least,
			topology.Count(len(within), "gap"), 100*float64(sum)/float64(toNS-fromNS), units.Time(longest.FromNS),
			time.Duration(longest.ToNS-longest.FromNS)))
	}
	return notes
}

// describeSampling describes which flows are missing because none of their packets was sampled.
func describeSampling(s connections.Sampled) string {
	if s.Flows == 0 {
		return ""
	}
	return fmt.Sprintf("a sampled packet stands for %s bytes, and most flows smaller than that have none: the "+
		"%d sampled flows have their bytes, too, and stand for at least %s flows. Slowdowns by size hold from %s "+
		"bytes on, which 19 of 20 flows of that size have a sample for; those of all flows leave out the small ones",
		units.Human(s.SampleBytes), s.Flows, units.Human(float64(s.Flows)+s.Missing), units.Human(3*s.SampleBytes))
}
