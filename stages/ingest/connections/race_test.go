package connections

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
)

// Sources are read side by side while a run of the sort is written, which compares records by their
// observers. Most records have a connection, a start and an end in common with others. The race detector
// checks it (make race).
func TestCollectorComparesWhileRowsAreAdded(t *testing.T) {
	c := NewCollector(Settings{TmpDir: t.TempDir(), MemoryBytes: 1 << 20})
	defer func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}()
	const (
		batches     = 20
		rowsOfBatch = 512
	)
	var sources sync.WaitGroup
	for source := range int32(4) {
		sources.Go(func() {
			random := rand.New(rand.NewPCG(uint64(source), 1))
			r := c.Read(source)
			rows := make([]Row, rowsOfBatch)
			for batch := range batches {
				for i := range rows {
					at := random.Int64N(40) * 1e9
					rows[i] = Row{
						Source: source, FlowID: 1,
						RowEnds:  RowEnds{Src: random.Int32N(30), Dst: 100, Protocol: 6, SrcPort: 1, DstPort: 2},
						Observer: fmt.Sprint(source, batch, i), SizeBytes: 100, StartNS: at, EndNS: at + 1e9,
						ResolutionNS: 1e9, Samples: -1, Packets: 1,
					}
				}
				if err := r.Add(rows); err != nil {
					t.Error(err)
					return
				}
			}
			r.Keep()
		})
	}
	sources.Wait()
	if c.records.Len() != 4*batches*rowsOfBatch {
		t.Errorf("%d records", c.records.Len())
	}
}
