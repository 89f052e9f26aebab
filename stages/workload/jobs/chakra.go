package jobs

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"

	"google.golang.org/protobuf/encoding/protowire"
)

// ReadChakra reads the execution traces of all ranks in the form of MLCommons Chakra (et_def.proto: a
// GlobalMetadata and Nodes, each after its length). A node waits for its control and data dependencies. Sends,
// receives and collectives use the network. A collective of a process group (attribute pg_name) runs by the
// default algorithm of its kind; comm_size is what a rank has before it, as in ASTRA-sim. Every other node takes
// duration_micros. files are by rank, and open opens one at a time. Errors name the file and the node.
func ReadChakra(files []string, open func(file string) (io.ReadCloser, error)) (*Trace, error) {
	t := &Trace{Ranks: len(files)}
	for rank, file := range files {
		in, err := open(file)
		if err != nil {
			return nil, err
		}
		r := &chakraReader{Trace: t, rank: rank, file: file, byID: map[uint64]int{}}
		if err := errors.Join(r.readAll(bufio.NewReader(in)), in.Close()); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
	}
	return t, nil
}

type chakraReader struct {
	*Trace
	rank int
	file string
	byID map[uint64]int // operations of the nodes
	deps [][]uint64     // by node
}

// chakraNode are the fields of a Node that count.
type chakraNode struct {
	id, kind, micros uint64
	deps             []uint64
	numbers          map[string]int64 // attributes
	group            string
}

// Numbers of et_def.proto: NodeType and CollectiveCommType.
const (
	chakraSend       = 5
	chakraReceive    = 6
	chakraCollective = 7
	chakraKinds      = 10
)

var chakraCollectives = map[int64]string{
	0: "all-reduce", 2: "all-gather", 5: "broadcast", 6: "all-to-all", 7: "reduce-scatter", 8: "reduce-scatter",
	9: "all-reduce", // a barrier
}

const chakraBarrier = 9

func (r *chakraReader) readAll(in *bufio.Reader) error {
	for i := 0; ; i++ {
		size, err := binary.ReadUvarint(in)
		if errors.Is(err, io.EOF) && i > 0 {
			break
		}
		if err == nil && size > maxLineBytes {
			err = fmt.Errorf("a message of %d bytes", size)
		}
		message := make([]byte, min(size, maxLineBytes))
		if err == nil {
			_, err = io.ReadFull(in, message)
		}
		if err == nil && i > 0 { // the first is the metadata
			err = r.node(message)
		}
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			err = errors.New("the file is cut off")
		}
		if err != nil {
			return fmt.Errorf("message %d: %w", i, err)
		}
	}
	return r.waitFor(r.deps, r.byID, "node")
}

func (r *chakraReader) node(message []byte) error {
	n := chakraNode{numbers: map[string]int64{}}
	err := fields(message, func(number protowire.Number, value uint64, data []byte) error {
		switch number {
		case 1:
			n.id = value
		case 3:
			n.kind = value
		case 4, 5:
			if data == nil {
				n.deps = append(n.deps, value)
			}
			for len(data) > 0 { // packed
				of, size := protowire.ConsumeVarint(data)
				if size < 0 {
					return protowire.ParseError(size)
				}
				n.deps, data = append(n.deps, of), data[size:]
			}
		case 7:
			n.micros = value
		case 10:
			return n.attribute(data)
		}
		return nil
	})
	if err != nil {
		return err
	}
	o := op{rank: r.rank, at: fmt.Sprintf("%s node %d", r.file, n.id)}
	if err := r.operation(&n, &o); err != nil {
		return fmt.Errorf("node %d: %w", n.id, err)
	}
	if _, twice := r.byID[n.id]; twice {
		return fmt.Errorf("node %d comes twice", n.id)
	}
	r.byID[n.id] = len(r.ops)
	r.deps, r.ops = append(r.deps, n.deps), append(r.ops, o)
	return nil
}

func (r *chakraReader) operation(n *chakraNode, o *op) error {
	get := func(name string, least, below int64) (int64, error) {
		v, known := n.numbers[name]
		if !known || v < least || v >= below {
			return 0, fmt.Errorf("attribute %s is missing or not from %d to %d", name, least, below-1)
		}
		return v, nil
	}
	var err, wrong error
	switch n.kind {
	case chakraSend, chakraReceive:
		o.kind = opSend
		end := "comm_dst"
		if n.kind == chakraReceive {
			o.kind, end = opReceive, "comm_src"
		}
		var peer int64
		peer, err = get(end, 0, int64(r.Ranks))
		o.bytes, wrong = get("comm_size", 0, math.MaxInt64)
		o.peer, o.tag = int(peer), n.numbers["comm_tag"]
	case chakraCollective:
		var kind, bytes int64
		kind, err = get("comm_type", 0, chakraKinds)
		bytes, wrong = get("comm_size", 0, math.MaxInt64/MaxRanks)
		o.kind, o.group = opCollective, n.group
		if o.collective = (&Collective{Kind: chakraCollectives[kind], Bytes: bytes}); o.collective.Kind == "" {
			return fmt.Errorf("collectives of type %d are not supported", kind)
		}
		if kind == chakraBarrier {
			*o.collective, wrong = Collective{Kind: "all-reduce", Algorithm: "tree", Bytes: 1}, nil
		}
	default:
		if n.kind == 0 || n.kind > chakraKinds || n.micros > math.MaxInt64/1000 {
			return fmt.Errorf("type %d with a duration of %d µs", n.kind, n.micros)
		}
		o.durationNS = int64(n.micros) * 1000
	}
	return errors.Join(err, wrong)
}

// attribute reads an AttributeProto: a number of any type, or pg_name.
func (n *chakraNode) attribute(message []byte) error {
	var name string
	return fields(message, func(number protowire.Number, value uint64, data []byte) error {
		switch {
		case number == 1:
			name = string(data)
		case number == 17 || number == 19: // sint32, sint64
			n.numbers[name] = protowire.DecodeZigZag(value)
		case number == 29 && name == "pg_name":
			n.group = string(data)
		case number >= 7 && number <= 27 && data == nil:
			n.numbers[name] = int64(value)
		}
		return nil
	})
}

// fields calls f with the fields of a message: data is nil but for a string, bytes, a message or packed numbers.
func fields(message []byte, f func(number protowire.Number, value uint64, data []byte) error) error {
	for len(message) > 0 {
		number, kind, size := protowire.ConsumeTag(message)
		if size < 0 {
			return protowire.ParseError(size)
		}
		message = message[size:]
		var value uint64
		var data []byte
		switch kind {
		case protowire.VarintType:
			value, size = protowire.ConsumeVarint(message)
		case protowire.Fixed64Type:
			value, size = protowire.ConsumeFixed64(message)
		case protowire.Fixed32Type:
			var v uint32
			v, size = protowire.ConsumeFixed32(message)
			value = uint64(v)
		case protowire.BytesType:
			data, size = protowire.ConsumeBytes(message)
			data = append([]byte{}, data...)
		default:
			size = protowire.ConsumeFieldValue(number, kind, message)
		}
		if size < 0 {
			return protowire.ParseError(size)
		}
		if err := f(number, value, data); err != nil {
			return err
		}
		message = message[size:]
	}
	return nil
}
