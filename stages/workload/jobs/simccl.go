package jobs

import (
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"parsimon/schema/tree"
)

// ReadSimCCL reads the flows of collectives in the format of SimAI's SimCCL (ncclFlowModel_detailed_flows.csv
// of its mocks of NCCL 2.20 and 2.30).
//
// A flow starts when the flows in parent_flow_ids, separated by semicolons, have been delivered. A flow
// without parents starts at 0, because the file does not state when a collective begins. The columns that
// describe how SimCCL derived a flow are ignored. So is prev_flow_ids, which holds ranks. Flows of NVLS are
// errors, because their ranks are switches. The trace uses at most memoryBytes of memory (0: no limit).
// Errors name the line.
func ReadSimCCL(in io.Reader, memoryBytes int64) (*Trace, error) {
	t := &Trace{memory: memory{limit: memoryBytes}}
	byID := map[uint64]int{}
	var parents [][]uint64
	columns := []string{"flow_id", "src", "dest", "flow_size", "conn_type", "parent_flow_ids", "*"}
	err := tree.CSV(in, columns, func(line int, cells []string) error {
		o, id, of, err := simcclFlow(cells)
		if err != nil {
			return err
		}
		if _, twice := byID[id]; twice {
			return fmt.Errorf("flow %d comes twice", id)
		}
		o.at = fmt.Sprintf("line %d", line)
		byID[id] = len(t.ops)
		parents = append(parents, of)
		t.Ranks = max(t.Ranks, o.rank+1, o.peer+1)
		return errors.Join(t.add(o), t.memory.take(int64(len(of))*dependencyMemory))
	})
	if err != nil {
		return nil, err
	}
	return t, t.waitFor(parents, byID, "flow")
}

// simcclFlow reads a flow, its id and the ids of its parents.
func simcclFlow(cells []string) (o op, id uint64, parents []uint64, err error) {
	number := func(what, text string, below int64) int64 {
		n, e := strconv.ParseInt(text, 10, 64)
		if (e != nil || n < 0 || n >= below) && err == nil {
			err = fmt.Errorf("%s %q, want a number from 0 to %d", what, text, below-1)
		}
		return n
	}
	id = uint64(number("flow_id", cells[0], math.MaxInt64))
	o = op{
		kind:     opSend,
		oneSided: true,
		rank:     int(number("src", cells[1], MaxRanks)),
		peer:     int(number("dest", cells[2], MaxRanks)),
		bytes:    number("flow_size", cells[3], math.MaxInt64),
	}
	if cells[5] != "" {
		for of := range strings.SplitSeq(cells[5], ";") {
			parents = append(parents, uint64(number("parent_flow_ids", of, math.MaxInt64)))
		}
	}
	if strings.HasPrefix(cells[4], "NVLS") && err == nil {
		err = fmt.Errorf("conn_type %s: sums in switches are not supported", cells[4])
	}
	return o, id, parents, err
}
