package jobs

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

// ReadSimCCL reads the flows of collectives as SimAI's SimCCL lists them (ncclFlowModel_detailed_flows.csv of its mocks
// of NCCL 2.20 and 2.30). A flow starts when those of parent_flow_ids, semicolons between, have been delivered; without
// any at the start, as the file does not say when a collective begins. The columns that tell how SimCCL came to a flow
// are not used, nor is prev_flow_ids, which holds ranks. Flows of NVLS have switches as ranks and are an error. Errors
// name the line.
func ReadSimCCL(in io.Reader) (*Trace, error) {
	rows := csv.NewReader(in)
	head, err := rows.Read()
	if err != nil {
		return nil, fmt.Errorf("line 1: %w", noEOF(err))
	}
	column := map[string]int{}
	for i, name := range head {
		column[name] = i
	}
	for _, name := range []string{"flow_id", "src", "dest", "flow_size", "conn_type", "parent_flow_ids"} {
		if _, has := column[name]; !has {
			return nil, fmt.Errorf("line 1: there is no column %s", name)
		}
	}
	t, byID, parents := &Trace{}, map[int64]int{}, [][]int64{}
	for {
		row, err := rows.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err // with the line
		}
		line, _ := rows.FieldPos(0)
		at := fmt.Sprintf("line %d", line)
		o, id, of, err := simcclFlow(func(name string) string { return row[column[name]] })
		if _, twice := byID[id]; err == nil && twice {
			err = fmt.Errorf("flow %d comes twice", id)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", at, err)
		}
		o.at, byID[id] = at, len(t.ops)
		t.ops, parents = append(t.ops, o), append(parents, of)
		t.Ranks = max(t.Ranks, o.rank+1, o.peer+1)
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
func simcclFlow(cell func(column string) string) (o op, id int64, parents []int64, err error) {
	number := func(what, text string, below int64) int64 {
		n, e := strconv.ParseInt(text, 10, 64)
		if (e != nil || n < 0 || n >= below) && err == nil {
			err = fmt.Errorf("%s %q, want a number from 0 to %d", what, text, below-1)
		}
		return n
	}
	id = number("flow_id", cell("flow_id"), math.MaxInt64)
	o = op{kind: opSend, oneSided: true, rank: int(number("src", cell("src"), MaxRanks)),
		peer: int(number("dest", cell("dest"), MaxRanks)), bytes: number("flow_size", cell("flow_size"), math.MaxInt64)}
	if text := cell("parent_flow_ids"); text != "" {
		for of := range strings.SplitSeq(text, ";") {
			parents = append(parents, number("parent_flow_ids", of, math.MaxInt64))
		}
	}
	if kind := cell("conn_type"); strings.HasPrefix(kind, "NVLS") && err == nil {
		err = fmt.Errorf("conn_type %s: sums in switches are not supported", kind)
	}
	return o, id, parents, err
}
