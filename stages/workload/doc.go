// Package workload generates flows for a network: from traffic matrices, flow-size distributions and arrival
// processes (Generate), or from the flows of another scenario changed by a what-if (ChangeFlows).
//
//	Workload                            Plan                         table flows
//	  services: matrix, sizes,   ─────►   rates for which the  ─────►  in start order,
//	  inter-arrivals, share      NewPlan  most loaded link    Generate ids from 0
//	  max_load                            reaches max_load
//
// A service's flows are an independent arrival process. Each of its flows draws from a random stream of its own,
// so the flows of a service do not depend on the other services or on how many flows are generated.
package workload
