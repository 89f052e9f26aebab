package schema

import "slices"

// Tables of ingested traces. They are partitioned by workload: a trace is ingested before any scenario uses
// it.
var (
	Workloads = Table{
		Name: "workloads",
		Doc: "Ingested traces: one row per source file. For a file, rows + second_directions = records + rejects. " +
			"For a workload, records = flows + merged records + rejects of merging.",
		Grain: "source file", Key: []string{"source"}, Sort: []string{"source"}, Scope: OfWorkload,
		Columns: []Column{
			{"source", i32, false, "", "number of the file in the workload, from 1"},
			{"file", str, false, "", "name of the file, or URL of the object"},
			{"digest", str, false, "", "SHA-256 of its bytes; the same bytes are ingested once"},
			{"rows", i64, false, "", "number of rows in the file"},
			{"second_directions", i64, false, "",
				"number of its rows with bytes in both directions, which count twice"},
			{"records", i64, false, "", "number of its rows in table records"},
			{"rejects", i64, false, "", "number of its rows in table rejects"},
			{"set_aside", i64, false, "", "number of rejects that are not flows, such as log lines without data"},
			{"file_bytes", i64, true, "bytes", "size of the file as it is stored; null if unknown"},
			{"etag", str, true, "", "ETag of the object; null for files that are not in an object store"},
		},
	}
	Records = Table{
		Name: "records",
		Doc: "Usable rows of the source files of a workload, with hosts and labels resolved, " +
			"before the records of one connection are merged into a flow.",
		Grain: "direction of an input row", Key: []string{"source", "row", "reverse"}, Sort: []string{},
		Scope: OfWorkload,
		Columns: slices.Concat(Workloads.Select("source"), Rejects.Select("row", "reverse"), []Column{
			{"flow_id", i64, true, "", "id in the file; null if it has none"},
		}, Flows.Select("src", "dst"), []Column{
			{"protocol", i16, true, "", "IP protocol number"},
			{"src_port", i32, true, "", "source port"},
			{"dst_port", i32, true, "", "destination port"},
			{"observer", str, false, "",
				"device that reported the record, with the interface if it counts every packet; empty if unknown"},
			{"size_bytes", i64, false, "bytes", "bytes, scaled by the sampling rate"},
			{"start_ns", i64, false, "ns", "start time, or for a flow log the earliest possible one"},
			{"end_ns", i64, false, "ns", "end time; equal to start_ns if unknown"},
			{"resolution_ns", i64, false, "ns",
				"length of the range from start_ns that contains the start; 0 if the start is exact"},
			{"samples", i64, true, "",
				"number of sampled packets behind the record; 0 if it counts every packet; null if unknown"},
			{"packets", i64, true, "", "packets, scaled by the sampling rate; null if unknown"},
		}, Flows.Select("service", "vnet", "dscp")),
	}
	WorkloadIntervals = Table{
		Name: "workload_intervals",
		Doc: "When the log saw the bytes of the flows of a workload. The rows of a flow do not overlap, and their " +
			"bytes are the size of the flow. A flow without rows is one transfer that begins at its start. " +
			"Empty unless the workload comes from flow logs.",
		Grain: "flow × time that a record covers", Key: []string{"flow_id", "start_ns"},
		Sort: []string{"start_ns", "flow_id"}, Scope: OfWorkload,
		Columns: []Column{
			{"flow_id", i64, false, "", "flow of view workload_flows"},
			{"start_ns", i64, false, "ns", "start of the time, on the clock of the flows"},
			{"end_ns", i64, false, "ns", "end of the time, after start_ns"},
			{"bytes", i64, false, "bytes", "bytes of the flow in this time, as in size_bytes; more than 0"},
			{"packets", i64, true, "", "packets of the flow in this time; null if unknown"},
		},
	}
)
