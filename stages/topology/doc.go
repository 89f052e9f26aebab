// Package topology holds checked networks, routes flows over them, and describes them. Package format reads them from
// files.
//
//	nodes, cables ─ NewNetwork (Check) ─► Network ─ NewRouter ─► Router ─ Path ─► links of each flow
//	ClosSpec ─ Clos ──────────────────────┘   FabricSpec: fat-tree, rails, dragonfly, torus
//
// Describe says what a Network looks like; WriteTables, NodesRecord and LinksRecord store it.
//
// A Network holds nodes by ascending id and links by id. The links of cable c are 2c (A to B) and 2c+1 (B to A).
// Cables are selected by tier, by their ends or by patterns (Select), and change by failures, bandwidths, delays and
// new cables. A Router is a snapshot of a Network: it picks a shortest path for every flow by ECMP, and spreads
// expected loads as ECMP does on average.
package topology
