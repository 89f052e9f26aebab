package ingest

import (
	"embed"
	"fmt"
	"os"
)

// steps are the SQL of ingest. A statement has $NAME for values.
//
//go:embed steps/*.sql
var steps embed.FS

type values map[string]any

// connection lists the columns that the records of one connection share.
const connection = "src, dst, protocol, src_port, dst_port"

// sameInAll are the values that do not depend on what is ingested.
var sameInAll = values{
	"connection": connection,
	// All that a record says, its place apart, and what a correction of a record leaves as it is.
	"whole_record": connection + ", observer, size_bytes, start_ns, end_ns, resolution_ns, samples, flow_id, service, " +
		"vnet, dscp",
	"record_time": connection + ", observer, start_ns, end_ns",
	// The columns of a flow that do not depend on the order of its records, nor on who observed them.
	"kept":         "sum(samples) AS samples, max(service) AS service, max(vnet) AS vnet, max(dscp) AS dscp",
	"latest_start": "max(start_ns) FILTER (start_ns < until_ns OR start_ns + resolution_ns = until_ns)",
	// How many of the bytes y of a connection count once; 0 of one sample, which does not say it.
	"once":     "CASE WHEN y * y > n THEN y::DOUBLE * (squares - n) / (y * y - n) ELSE 0 END",
	"gap_bits": drawGapBits, "gap_mask": drawGaps - 1, "header_bytes": headerBytes,
	"max_bytes": maxFlowBytes, "too_many": 2 * maxFlowBytes, "max_start_ns": maxStartNS,
	"unknown_src": unknownSrc, "unknown_dst": unknownDst, "acks_alone": acksAlone,
}

// step returns the SQL of steps/NAME.sql with values.
func step(name string, of values) string {
	text, err := steps.ReadFile("steps/" + name + ".sql")
	if err != nil {
		panic("ingest: " + err.Error()) // embedded in the program
	}
	return os.Expand(string(text), func(key string) string {
		v, known := of[key]
		if !known {
			v, known = sameInAll[key]
		}
		if !known {
			panic("ingest: " + name + ".sql has no value of " + key)
		}
		return fmt.Sprint(v)
	})
}
