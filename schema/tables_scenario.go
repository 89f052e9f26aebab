package schema

// Tables of the input of a simulation.
var (
	Scenarios = Table{
		Name: "scenarios", Doc: "Scenarios, with everything that determines their ids.",
		Grain: "scenario", Key: []string{"scenario_id"}, Sort: []string{"scenario_id"},
		Columns: []Column{
			{"scenario_id", str, false, "", "hash of topology, workload, transport and seed"},
			{"base_id", str, true, "",
				"scenario that this one was derived from, whose tables it shares; null if none"},
			{"name", str, false, "", "name from the scenario file, or name of the flow file"},
			{"seed", i64, false, "", "seed of all random streams"},
			{"spec", str, false, "", "the complete scenario as canonical JSON"},
			{"flows", i64, false, "", "number of flows simulated"},
			{"rejects", i64, false, "", "number of rows of the flow file that cannot be simulated"},
			{"set_aside", i64, false, "", "number of rejects that state themselves that they are not flows"},
			{"merged", i64, false, "", "number of rows of the flow file that were merged into flows"},
			{"synthetic_starts", i64, false, "", "number of flows whose start was not measured"},
			{"dependencies", i64, false, "", "number of rows of table dependencies"},
			{"compute_steps", i64, false, "", "number of flows that are compute steps"},
			{"first_start_ns", i64, false, "ns", "start time of the first flow"},
			{"last_start_ns", i64, false, "ns", "start time of the last flow"},
			{"max_load", f64, true, "", "requested load of the most loaded link; null for traces"},
		},
	}
	Nodes = Table{
		Name: "nodes", Doc: "Nodes of the topology.",
		Grain: "node", Key: []string{"node_id"}, Sort: []string{"node_id"}, Scope: OfBoth,
		Columns: []Column{
			{"node_id", i32, false, "", "id in the topology file"},
			{"name", str, false, "", "name in the topology file, or the id as text if it has none"},
			{"kind", str, false, "", "host, tor, fabric, spine, switch or inner (a switch inside a server)"},
			{"pod", i32, true, "", "pod, from 0; null if the topology has no pods"},
			{"rack", i32, true, "", "rack, from 0 over the whole network; null if the topology has no racks"},
			{"rack_name", str, true, "",
				"name of the rack: the topology's, or that of its switches; null outside racks"},
		},
	}
	Links = Table{
		Name: "links", Doc: "Links of the topology: one row for each direction of each cable. Members of a LAG " +
			"are cables.",
		Grain: "link", Key: []string{"link_id"}, Sort: []string{"link_id"}, Scope: OfBoth,
		Columns: []Column{
			{"link_id", i32, false, "", "2 × the index of the cable in the topology, + 1 for the direction b → a"},
			{"src_node", i32, false, "", "sending node"},
			{"dst_node", i32, false, "", "receiving node"},
			{"bandwidth_bps", i64, false, "bps", "bandwidth"},
			{"delay_ns", i64, false, "ns", "propagation delay"},
			{"tier", str, false, "", "kinds of the two nodes, e.g. host-tor, fabric-spine"},
			{"failed", boo, false, "", "whether the cable is down in this scenario"},
			{"src_port", str, true, "", "port of the sending node; null if unknown"},
			{"dst_port", str, true, "", "port of the receiving node; null if unknown"},
		},
	}
	Flows = Table{
		Name: "flows", Doc: "Flows of the workload.",
		Grain: "flow", Key: []string{"flow_id"}, Sort: []string{"start_ns", "flow_id"}, Scope: OfBoth, Shared: true,
		Columns: []Column{
			{"flow_id", i64, false, "",
				"id in the flow file; flows of services are numbered from 0 by start time, those of job n from n × 2^40"},
			{"src", i32, false, "", "sending host"},
			{"dst", i32, false, "", "receiving host"},
			{"size_bytes", i64, false, "bytes",
				"bytes to deliver, without headers; 0, with src = dst, for a compute step"},
			{"start_ns", i64, false, "ns", "start time; for a flow in dependencies, the earliest possible one"},
			{"service", str, false, "", "service of the flow; empty if unknown"},
			{"vnet", str, false, "", "virtual network of the flow; empty if unknown"},
			{"synthetic_start", boo, false, "", "whether the start time was drawn, or is that of a sampled packet"},
			{"dscp", i16, true, "", "DSCP of its packets, 0 to 63; null if unknown, which classes treat as 0"},
			{"connection_id", i64, false, "",
				"connection whose path it takes: the flow of view workload_flows that it is a part of, or flow_id"},
			{"background", boo, false, "", "whether the flow only loads links, and has no row in slowdowns"},
		},
	}
	Dependencies = Table{
		Name: "dependencies",
		Doc: "Flows that wait for others. A flow starts when all flows that it waits for have been delivered and " +
			"the delays have passed, but not before its start_ns in flows. Empty if no flow waits.",
		Grain: "flow × flow that it waits for", Key: []string{"flow_row", "after_row"}, Sort: []string{"flow_row"},
		Shared: true,
		Columns: []Column{
			{"flow_row", i64, false, "", "row of the flow in table flows"},
			{"flow_id", i64, false, "", "flow that waits"},
			{"after_row", i64, false, "", "row of that flow in table flows"},
			{"after_flow_id", i64, false, "", "flow that it waits for"},
			{"delay_ns", i64, false, "ns", "time from that flow's delivery to the start"},
		},
	}
	JobFlows = Table{
		Name: "job_flows", Doc: "The job, the iteration and the purpose of each flow of a job. Empty if the " +
			"scenario has no jobs.",
		Grain: "flow", Key: []string{"flow_row"}, Sort: []string{"flow_row"}, Shared: true,
		Columns: []Column{
			{"flow_row", i64, false, "", "row of the flow in table flows"},
			{"flow_id", i64, false, "", "flow"},
			{"job", str, false, "", "name of the job; also the service of the flow"},
			{"iteration", i32, false, "", "iteration, from 0"},
			{"kind", str, false, "", "compute, activations, gradients, tensor, expert, or the collective of a step"},
		},
	}
	Rejects = Table{
		Name: "rejects", Doc: "Rows of flow files that cannot be simulated.",
		Grain: "direction of an input row", Key: []string{"file", "row", "reverse"},
		Sort:  []string{"file", "row", "reverse"},
		Scope: OfBoth, Shared: true,
		Columns: []Column{
			{"file", str, false, "", "input file"},
			{"row", i64, false, "", "row in the file, from 1"},
			{"reverse", boo, false, "", "the direction from dst to src, of a row with bytes in both"},
			{"reason", str, false, "", "why the row cannot be simulated"},
			{"raw", str, false, "", "the row as it was read"},
		},
	}
)
