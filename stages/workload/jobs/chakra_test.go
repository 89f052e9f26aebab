package jobs

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
)

// chakraNodeBytes encodes a node; numbers are int64 attributes.
func chakraNodeBytes(id, kind, micros uint64, deps []uint64, numbers map[string]int64, group string) []byte {
	var b, packed []byte
	number := func(n protowire.Number, v uint64) {
		b = protowire.AppendVarint(protowire.AppendTag(b, n, protowire.VarintType), v)
	}
	number(1, id)
	number(3, kind)
	number(7, micros)
	for i, d := range deps {
		if i == 0 { // a control dependency, not packed
			number(4, d)
			continue
		}
		packed = protowire.AppendVarint(packed, d)
	}
	b = protowire.AppendBytes(protowire.AppendTag(b, 5, protowire.BytesType), packed)
	attribute := func(name string, value []byte) {
		a := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), name)
		b = protowire.AppendBytes(protowire.AppendTag(b, 10, protowire.BytesType), append(a, value...))
	}
	for name, v := range numbers {
		attribute(name, protowire.AppendVarint(protowire.AppendTag(nil, 13, protowire.VarintType), uint64(v)))
	}
	if group != "" {
		attribute("pg_name", protowire.AppendString(protowire.AppendTag(nil, 29, protowire.BytesType), group))
	}
	return b
}

func chakraFile(nodes ...[]byte) []byte {
	b := binary.AppendUvarint(nil, 0) // metadata without a field
	for _, n := range nodes {
		b = append(binary.AppendUvarint(b, uint64(len(n))), n...)
	}
	return b
}

// chakraTrace has two ranks that compute, all-gather 100 bytes each, and send one message.
func chakraTrace() [][]byte {
	gather := map[string]int64{"comm_type": 2, "comm_size": 100}
	return [][]byte{
		chakraFile(chakraNodeBytes(1, 4, 3, nil, nil, ""), chakraNodeBytes(2, 7, 0, []uint64{1}, gather, "dp"),
			chakraNodeBytes(3, 5, 0, []uint64{1, 2}, map[string]int64{"comm_dst": 1, "comm_size": 9, "comm_tag": 4},
				"")),
		chakraFile(chakraNodeBytes(5, 6, 0, []uint64{7},
			map[string]int64{"comm_src": 0, "comm_size": 9, "comm_tag": 4}, ""),
			chakraNodeBytes(7, 7, 0, nil, gather, "dp"), chakraNodeBytes(8, 4, 2, []uint64{5}, nil, "")),
	}
}

func readChakra(files [][]byte) (*Trace, error) {
	content := map[string][]byte{}
	var names []string
	for rank, f := range files {
		names = append(names, fmt.Sprintf("x.%d.et", rank))
		content[names[rank]] = f
	}
	return ReadChakra(names, 0, func(file string) (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(content[file])), nil
	})
}

func TestChakra(t *testing.T) {
	trace, err := readChakra(chakraTrace())
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"0,10,10,0,3000,job,,0",
		"1,10,11,100,0,job,0,0",
		"2,11,10,100,0,job,,0",
		"3,10,11,9,0,job,0 1 2,0",
		"4,11,11,0,0,job,1 2 3,0",
		"5,11,11,0,0,job,4,2000",
	}
	got := csvOf(t, trace)
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s", strings.Join(got, "\n"))
	}
}

// chakraAttribute encodes a value as a field of AttributeProto.
func chakraAttribute(name string, field protowire.Number, wire protowire.Type, value []byte) []byte {
	a := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), name)
	a = append(protowire.AppendTag(a, field, wire), value...)
	return protowire.AppendBytes(protowire.AppendTag(nil, 10, protowire.BytesType), a)
}

// varintAttribute encodes an integer or a Boolean.
func varintAttribute(name string, field protowire.Number, value uint64) []byte {
	return chakraAttribute(name, field, protowire.VarintType, protowire.AppendVarint(nil, value))
}

// boolsAttribute encodes a list of Booleans: packed, or one field for each.
func boolsAttribute(name string, list []bool, isPacked bool) []byte {
	var message, values []byte
	for _, flag := range list {
		value := protowire.EncodeBool(flag)
		values = protowire.AppendVarint(values, value)
		if !isPacked {
			message = protowire.AppendVarint(protowire.AppendTag(message, 1, protowire.VarintType), value)
		}
	}
	if isPacked {
		message = protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), values)
	}
	return chakraAttribute(name, 28, protowire.BytesType, protowire.AppendBytes(nil, message))
}

// An integer may have any of the types of AttributeProto. Read as another type, a size would silently be
// twice or half of the one in the trace.
func TestChakraAttributeTypes(t *testing.T) {
	fixed32 := protowire.AppendFixed32
	fixed64 := protowire.AppendFixed64
	for name, attribute := range map[string]func(name string, value int64) []byte{
		"int32":  func(name string, v int64) []byte { return varintAttribute(name, 7, uint64(v)) },
		"int64":  func(name string, v int64) []byte { return varintAttribute(name, 9, uint64(v)) },
		"uint32": func(name string, v int64) []byte { return varintAttribute(name, 11, uint64(v)) },
		"uint64": func(name string, v int64) []byte { return varintAttribute(name, 13, uint64(v)) },
		"sint32": func(name string, v int64) []byte { return varintAttribute(name, 15, protowire.EncodeZigZag(v)) },
		"sint64": func(name string, v int64) []byte { return varintAttribute(name, 17, protowire.EncodeZigZag(v)) },
		"fixed32": func(name string, v int64) []byte {
			return chakraAttribute(name, 19, protowire.Fixed32Type, fixed32(nil, uint32(v)))
		},
		"fixed64": func(name string, v int64) []byte {
			return chakraAttribute(name, 21, protowire.Fixed64Type, fixed64(nil, uint64(v)))
		},
		"sfixed32": func(name string, v int64) []byte {
			return chakraAttribute(name, 23, protowire.Fixed32Type, fixed32(nil, uint32(v)))
		},
		"sfixed64": func(name string, v int64) []byte {
			return chakraAttribute(name, 25, protowire.Fixed64Type, fixed64(nil, uint64(v)))
		},
	} {
		node := func(id, kind uint64, peer string, of int64) []byte {
			return slices.Concat(chakraNodeBytes(id, kind, 0, nil, nil, ""), attribute(peer, of),
				attribute("comm_size", 4_000_001), attribute("comm_tag", 3))
		}
		trace, err := readChakra([][]byte{
			chakraFile(node(1, chakraSend, "comm_dst", 1)),
			chakraFile(node(1, chakraReceive, "comm_src", 0)),
		})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got := csvOf(t, trace)
		want := []string{"0,10,11,4000001,0,job,,0"}
		if !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}

// A negative number, or one that is not an integer, is an error instead of a huge size.
func TestChakraAttributeErrors(t *testing.T) {
	double := protowire.AppendFixed64(nil, 0x4130000000000000)
	for want, size := range map[string][]byte{
		"attribute comm_size is -1, want 0 to": varintAttribute("comm_size", 9, 1<<64-1),
		"attribute comm_size is -2, want 0 to": varintAttribute("comm_size", 17, 3),
		"attribute comm_size is -3, want 0 to": chakraAttribute("comm_size", 23, protowire.Fixed32Type,
			protowire.AppendFixed32(nil, 1<<32-3)),
		"attribute comm_size is not an integer below 2^63": varintAttribute("comm_size", 13, 1<<63),
		"node 1: attribute comm_size is not an integer": chakraAttribute("comm_size", 3, protowire.Fixed64Type,
			double),
		"attribute comm_size comes twice": slices.Concat(varintAttribute("comm_size", 9, 1),
			varintAttribute("comm_size", 9, 2)),
		"attribute comm_size is missing": nil,
	} {
		node := slices.Concat(chakraNodeBytes(1, chakraSend, 0, nil, map[string]int64{"comm_dst": 0}, ""), size)
		if _, err := readChakra([][]byte{chakraFile(node)}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// Older converters of PyTorch traces give the CPU call that launches a collective the type of a collective,
// and its size only to the kernel on the GPU. The call takes its time and sends nothing.
func TestChakraOperationsOnTheCPU(t *testing.T) {
	onCPU := varintAttribute("is_cpu_op", 27, 1)
	onGPU := varintAttribute("is_cpu_op", 27, 0)
	rank := chakraFile(
		slices.Concat(chakraNodeBytes(1, chakraCollective, 85, nil, nil, ""), onCPU),
		slices.Concat(chakraNodeBytes(2, chakraSend, 5, []uint64{1}, nil, ""), onCPU),
		slices.Concat(chakraNodeBytes(3, chakraCollective, 0, []uint64{2},
			map[string]int64{"comm_type": 0, "comm_size": 10}, ""), onGPU),
	)
	trace, err := readChakra([][]byte{rank, rank})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"0,10,10,0,85000,job,,0",
		"1,11,11,0,85000,job,,0",
		"2,10,10,0,0,job,0,5000",
		"3,11,11,0,0,job,1,5000",
		"4,10,11,5,0,job,2,0",
		"5,11,10,5,0,job,3,0",
		"6,10,11,5,0,job,4 5,0",
		"7,11,10,5,0,job,4 5,0",
	}
	got := csvOf(t, trace)
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s", strings.Join(got, "\n"))
	}
}

// A collective in one of two dimensions of the network must not run among all ranks.
func TestChakraInvolvedDimensions(t *testing.T) {
	const want = "node 1: the collective takes place in some dimensions of the network only"
	for _, c := range []struct {
		dimensions []byte
		refused    bool
	}{
		{boolsAttribute("involved_dim", []bool{true}, true), false},
		{boolsAttribute("involved_dim", []bool{true, true, true}, true), false},
		{boolsAttribute("involved_dim", []bool{true, true}, false), false},
		{boolsAttribute("involved_dim", []bool{true, false}, true), true},
		{boolsAttribute("involved_dim", []bool{false, true}, false), true},
		{varintAttribute("involved_dim", 27, 0), true},
		{varintAttribute("involved_dim", 27, 1), false},
	} {
		numbers := map[string]int64{"comm_type": 0, "comm_size": 10}
		node := slices.Concat(chakraNodeBytes(1, chakraCollective, 0, nil, numbers, ""), c.dimensions)
		_, err := readChakra([][]byte{chakraFile(node)})
		refused := err != nil && strings.Contains(err.Error(), want)
		if refused != c.refused || !refused && err != nil {
			t.Errorf("dimensions %x: error %v", c.dimensions, err)
		}
	}
}

// A send and its receive have the same size. If they differ, one of the two files is wrong.
func TestChakraSizesOfSendAndReceive(t *testing.T) {
	for _, received := range []int64{8, 10} {
		trace, err := readChakra([][]byte{
			chakraFile(chakraNodeBytes(1, chakraSend, 0, nil, map[string]int64{"comm_dst": 1, "comm_size": 9}, "")),
			chakraFile(chakraNodeBytes(1, chakraReceive, 0, nil,
				map[string]int64{"comm_src": 0, "comm_size": received}, "")),
		})
		if err != nil {
			t.Fatal(err)
		}
		err = trace.Flows(t.Context(), []int32{0, 1}, func(*Flow) error { return nil })
		want := fmt.Sprintf("x.1.et node 1 receives %d bytes, but x.0.et node 1 sends 9", received)
		if err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
