package jobs

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// Rank 0 computes and sends; rank 1 receives at once (irequires), and answers when it has received and
// computed.
const goal = `// a schedule
num_ranks 2
rank 0 { /* two lines
of comment */
a: calc 1500 cpu 1
b: send 4000b to 1 tag 7 cpu 0 nic 0
c: recv 8b from 1
b requires a
c irequires a
}

rank 1 {
r: recv 4000b from 0 tag 7
c: calc 100
s: send 8 b to 0
c irequires r
s requires r
s requires c
}
`

func TestGOAL(t *testing.T) {
	trace, err := ReadGOAL(strings.NewReader(goal), 0)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"0,10,10,0,1500,job,,0",
		"1,11,11,0,100,job,,0",
		"2,10,11,4000,0,job,0,0",
		"3,11,10,8,0,job,1 2,0",
	}
	got := csvOf(t, trace)
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// A file states the number of its ranks once. A second number would renumber those that were read.
func TestGOALStatesItsRanksOnce(t *testing.T) {
	for _, text := range []string{"num_ranks 1\nnum_ranks 2\n", "num_ranks 2\nrank 0 {\n}\nnum_ranks 1\n",
		"num_ranks 0\n"} {
		if _, err := ReadGOAL(strings.NewReader(text), 0); err == nil {
			t.Errorf("%q is read without an error", text)
		}
	}
}

// Flows are numbered with decimal digits, and waits name these numbers.
func TestCSVOfManyFlows(t *testing.T) {
	var sends, receives string
	for i := range 14 {
		sends += fmt.Sprintf("a%d: send 12b to 1 tag %d\n", i, i)
		receives += fmt.Sprintf("a%d: recv 12b from 0 tag %d\n", i, i)
	}
	text := "num_ranks 2\nrank 0 {\n" + sends + "}\nrank 1 {\n" + receives + "}\n"
	trace, err := ReadGOAL(strings.NewReader(text), 0)
	if err != nil {
		t.Fatal(err)
	}
	lines := csvOf(t, trace)
	for i, line := range lines {
		want := fmt.Sprintf("%d,10,11,12,", i)
		if !strings.HasPrefix(line, want) {
			t.Errorf("flow %d: %s, want %s…", i, line, want)
		}
	}
	if len(lines) != 14 {
		t.Errorf("%d flows", len(lines))
	}
}

// A receive that waits for a computation ends after both.
func TestGOALLateReceive(t *testing.T) {
	trace, err := ReadGOAL(strings.NewReader(`num_ranks 2
rank 0 {
send 10b to 1
}
rank 1 {
a: calc 5
b: recv 10b from 0
c: send 0b to 1
d: recv 0b from 1
b requires a
c requires b
}`), 0)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"0,10,11,10,0,job,,0", "1,11,11,0,5,job,,0", "2,11,11,0,0,job,0 1,0", "3,11,11,0,0,job,2,0"}
	got := csvOf(t, trace)
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s", strings.Join(got, "\n"))
	}
}

// A message has the size of its send. A receive may have a larger buffer, as in MPI. A smaller one would
// silently truncate the message.
func TestGOALReceiveBuffer(t *testing.T) {
	for bytes, want := range map[int]string{10: "", 20: "", 9: "line 6 receives 9 bytes, but line 3 sends 10"} {
		text := fmt.Sprintf("num_ranks 2\nrank 0 {\nsend 10b to 1\n}\nrank 1 {\nrecv %db from 0\n}\n", bytes)
		trace, err := ReadGOAL(strings.NewReader(text), 0)
		if err != nil {
			t.Fatal(err)
		}
		sizes := []int64{}
		err = trace.Flows(t.Context(), []int32{0, 1}, func(f *Flow) error {
			sizes = append(sizes, f.Bytes)
			return nil
		})
		switch {
		case want != "" && (err == nil || err.Error() != want):
			t.Errorf("receive of %d bytes: %v, want %s", bytes, err, want)
		case want == "" && (err != nil || !slices.Equal(sizes, []int64{10})):
			t.Errorf("receive of %d bytes: flows of %v bytes, %v", bytes, sizes, err)
		}
	}
}
