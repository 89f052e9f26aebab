package schema

import "github.com/apache/arrow/go/v17/arrow"

// OldestVersion is the oldest version whose tables and manifests this program reads. It writes Version only.
const OldestVersion = 15

// Readable reports whether this program reads tables of a version.
func Readable(version int) bool { return version >= OldestVersion && version <= Version }

// added has the columns that tables got after OldestVersion, with the first version that has them. Readers
// of older files find the empty value in them (EmptyValue).
//
//	version 16   rows of logs with bytes in both directions
//	version 17   table workload_intervals; folders workload_…; derived columns (Derived); variants as values
var added = map[string]map[string]int{
	Workloads.Name: {"second_directions": 16},
	Rejects.Name:   {"reverse": 16},
	Records.Name:   {"reverse": 16},
}

// WorkloadFolders is the first version in which tables of both scopes have a folder of their own for
// workloads.
const WorkloadFolders = 17

// In reports whether files of a version have a column of the table.
func (t Table) In(version int, column string) bool { return added[t.Name][column] <= version }

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
