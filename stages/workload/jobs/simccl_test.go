package jobs

import (
	"slices"
	"strings"
	"testing"
)

// The flows of a ring of three ranks, one of which has two parents, as SimCCL's mocks of NCCL 2.30 and 2.20
// list them.
const simccl = `collective,op,data_size,algorithm,protocol,channel_id,flow_id,src,dest,flow_size,chunk_id,chunk_count,conn_type,parent_flow_ids,prev_flow_ids
TP_0_0_0_1_300,1,300,1,0,0,4,0,1,100,0,2,RING,,2
TP_0_0_0_1_300,1,300,1,0,0,6,2,0,100,0,2,PTP_PXN_END,5;4,1
TP_0_0_0_1_300,1,300,1,0,0,5,1,2,0,0,2,RING,4,0
`

func TestSimCCL(t *testing.T) {
	var older []string
	for line := range strings.Lines(simccl) {
		f := strings.Split(line, ",")
		older = append(older, strings.Join(slices.Delete(f, 3, 5), ","))
	}
	for _, text := range []string{simccl, strings.Join(older, "")} {
		trace, err := ReadSimCCL(strings.NewReader(text), 0)
		if err != nil {
			t.Fatal(err)
		}
		want := []string{"0,10,11,100,0,job,,0", "1,11,12,1,0,job,0,0", "2,12,10,100,0,job,0 1,0"}
		got := csvOf(t, trace)
		if !slices.Equal(got, want) {
			t.Errorf("got\n%s", strings.Join(got, "\n"))
		}
	}
}
