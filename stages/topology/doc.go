// Package topology reads networks from files, checks them, and routes flows over them.
//
//	cabling list, CSV or Parquet ─┐
//	SONiC config_db.json          │ sightings ─ assemble ─┐
//	Batfish layer-1 JSON          │ (one per cable end)   │
//	containerlab YAML            ─┘                       ▼
//	JSON, HPCC, nodes + links,  ──────────────────────► draft ─ finish ─► Network ─► Router ─► path of
//	clos and graph YAML           (nodes, cables, lines)    │                                   each flow
//	                                                        └─► faults (file, line, text)
//
// A sighting is one statement that two ports are joined. Assemble turns sightings into cables: it
// matches the two ends, resolves speeds and delays, and infers hosts, roles, racks and pods. Finish
// checks the draft of any format. A Network exists only if no fault remains; Load reports all faults
// at once, Read returns them as one error.
//
// A Network holds nodes by ascending id and links by id. The links of cable c are 2c (A to B) and
// 2c+1 (B to A). A Router picks a shortest path for every flow by ECMP.
//
// To add a format, write one file with a reader (format_batfish.go is a short example) and add one
// line to the table in formats.go. The reader reports what it finds to a draft or as sightings; the
// common code does the checks, the repairs and the help text.
package topology
