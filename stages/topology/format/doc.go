// Package format reads networks from files of any of the formats that "parsimon help topology" documents.
//
//	cabling list: CSV, Parquet       ─┐
//	SONiC: config_db.json,            │ sightings ─ assemble ─┐
//	  LLDP neighbours                 │ (one per cable end)   │
//	Batfish layer-1 JSON             ─┘                       ▼
//	JSON, nodes + links,            ──────────────────────► draft ─ finish ─► topology.Network
//	clos, fabric and graph YAML       (nodes, cables, lines)    └─► faults (file, line, text)
//
// A sighting is one statement that two ports are joined. Assemble turns sightings into cables: it matches the two ends,
// resolves speeds and delays, joins the members of link aggregation groups, and infers hosts, roles, racks and pods
// (infer.go). Finish checks the draft of any format. A Network exists only if no fault but islands remains; Load
// reports all faults at once, Loaded.Usable returns them as one error.
//
// JSON and YAML are fields with the file, the line and the key of each (schema/tree). Tables are rows of text under
// columns, each column a list of the headers that it may have (table.go).
package format
