package jobs

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"parsimon/schema/tree"
)

// ReadSimCCL reads the flows of collectives as SimAI's SimCCL lists them (ncclFlowModel_detailed_flows.csv of its mocks
// of NCCL 2.20 and 2.30). A flow starts when those of parent_flow_ids, semicolons between, have been delivered; without
// any at the start, as the file does not say when a collective begins. The columns that tell how SimCCL came to a flow
// are not used, nor is prev_flow_ids, which holds ranks. Flows of NVLS have switches as ranks and are an error. Errors
// name the line.
func ReadSimCCL(in io.Reader) (*Trace, error) {
	t, byID, parents := &Trace{}, map[int64]int{}, [][]int64{}
	columns := []string{"flow_id", "src", "dest", "flow_size", "conn_type", "parent_flow_ids", "*"}
	err := tree.CSV(in, columns, func(line int, cells []string) error {
		o, id, of, err := simcclFlow(cells)
		if _, twice := byID[id]; err == nil && twice {
			err = fmt.Errorf("flow %d comes twice", id)
		}
		o.at, byID[id] = fmt.Sprintf("line %d", line), len(t.ops)
		t.ops, parents = append(t.ops, o), append(parents, of)
		t.Ranks = max(t.Ranks, o.rank+1, o.peer+1)
		return err
	})
	if err != nil {
		return nil, err
	}
	for i, of := range parents {
		for _, id := range of {
			parent, known := byID[id]
			if !known {
				return nil, fmt.Errorf("%s waits for flow %d, which the file has not", t.ops[i].at, id)
			}
			t.ops[i].after = append(t.ops[i].after, parent)
		}
	}
	return t, nil
}

// simcclFlow reads a flow, its id and those of its parents.
func simcclFlow(cells []string) (o op, id int64, parents []int64, err error) {
	number := func(what, text string, below int64) int64 {
		n, e := strconv.ParseInt(text, 10, 64)
		if (e != nil || n < 0 || n >= below) && err == nil {
			err = fmt.Errorf("%s %q, want a number from 0 to %d", what, text, below-1)
		}
		return n
	}
	id = number("flow_id", cells[0], math.MaxInt64)
	o = op{kind: opSend, oneSided: true, rank: int(number("src", cells[1], MaxRanks)),
		peer: int(number("dest", cells[2], MaxRanks)), bytes: number("flow_size", cells[3], math.MaxInt64)}
	if cells[5] != "" {
		for of := range strings.SplitSeq(cells[5], ";") {
			parents = append(parents, number("parent_flow_ids", of, math.MaxInt64))
		}
	}
	if strings.HasPrefix(cells[4], "NVLS") && err == nil {
		err = fmt.Errorf("conn_type %s: sums in switches are not supported", cells[4])
	}
	return o, id, parents, err
}
