package schema

import "github.com/apache/arrow/go/v17/arrow"

// OldestVersion is the oldest version whose tables and manifests this program reads. It writes Version only.
const OldestVersion = 15

// Readable reports whether this program reads tables of a version.
func Readable(version int) bool { return version >= OldestVersion && version <= Version }

// An addition is a column that a table got after OldestVersion.
type addition struct {
	version int    // the first version that has it
	like    string // column whose values readers find in older files; empty: the empty value
}

// added has the additions to tables that outlive an estimate.
//
//	version 16   rows of logs with bytes in both directions
//	version 17   table workload_intervals; packets of records
//	version 18   flows that are parts of connections, or only load links; delays of link cases
//	version 19   folders workload_…, derived columns, variants as values
//	version 20   sizes and ETags of source files; table validation_links
//	version 21   table message_sizes
//	version 22   table flow_paths; no rows of hop_contributions that add nothing; hops without derived columns
var added = map[string]map[string]addition{
	Workloads.Name:        {"second_directions": {16, ""}, "file_bytes": {20, ""}, "etag": {20, ""}},
	Rejects.Name:          {"reverse": {16, ""}},
	Records.Name:          {"reverse": {16, ""}, "packets": {17, ""}},
	Flows.Name:            {"connection_id": {18, "flow_id"}, "background": {18, ""}},
	HopContributions.Name: {"case_delay_ns": {18, ""}},
	DelayBuckets.Name:     {"large_n": {18, ""}, "small_delay": {18, ""}, "large_delay": {18, ""}},
}

// Removed has the tables that older programs wrote and this one does not have. Their files stay in a lake
// until the estimate is committed again. Readers skip them.
var Removed = []string{"hop_delays"}

// Required lists tables that stages of this version read and older versions did not write. If a stage needs
// such a table of an older lake, the stage that writes it runs again.
var Required = []string{FlowPaths.Name}

// WorkloadFolders is the first version in which tables of both scopes have a separate folder for
// workloads.
const WorkloadFolders = 19

// In reports whether files of a version have a column of the table. If they do not, like is the column whose
// values it has there, or empty if its values are empty.
func (t Table) In(version int, column string) (in bool, like string) {
	a := added[t.Name][column]
	return a.version <= version, a.like
}

// Grew reports whether the table got columns after OldestVersion.
func (t Table) Grew() bool { return added[t.Name] != nil }

// EmptyValue returns the value, as SQL, that readers find in a column of a file that is older than the
// column: null, or zero, false or empty text if the column is not nullable.
func (c Column) EmptyValue() string {
	if c.Nullable {
		return "NULL"
	}
	switch c.Type.ID() {
	case arrow.BOOL:
		return "false"
	case arrow.STRING:
		return "''"
	case arrow.LIST:
		return "[]"
	}
	return "0"
}
