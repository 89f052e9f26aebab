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
// at once, Loaded.Usable returns them as one error.
//
// A Network holds nodes by ascending id and links by id. The links of cable c are 2c (A to B) and
// 2c+1 (B to A). A Router picks a shortest path for every flow by ECMP.
//
// To add a format, write one file with a reader (format_containerlab.go is an example) and add one
// line to the table in formats.go. The reader reports what it finds to a draft or as sightings; the
// common code does the checks, the repairs and the help text.
//
// Files, in the order of the picture:
//
//	formats, format_*                 which format a path has; one reader each
//	sonic_settings                    what SONiC configurations say about marking and buffers
//	readfile, grid                    files, and tables of text from CSV or Parquet
//	tree, treejson, treeyaml          JSON and YAML with the line of every value
//	units, pattern, nodelist          speeds and delays; host patterns; lists of devices
//	sightings, cables, assemble       from ends of cables to cables
//	roles, places                     hosts, switches and tiers; racks and pods, where nothing states them
//	draft, check, fault, islands      finish: faults and repairs
//	clos                              three-tier networks from a few numbers
//	network, nodeindex, racks         Network
//	select, change                    cables by name or tier; failures, bandwidths, new cables
//	routetables, router, ecmp         Router: its tables, paths, the hash that chooses between equal-cost links
//	expected, expected_spreader       expected load of each link, as ECMP spreads flows on average
//	describe, describepaths, cuts     what parsimon topology reports
//	dot, write, laketables            a picture; nodes.csv and links.csv; the lake's tables nodes and links
package topology
