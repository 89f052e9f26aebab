package jobs

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"slices"
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"
)

// ReadChakra reads the execution traces of all ranks in the format of MLCommons Chakra (et_def.proto: a
// GlobalMetadata and Nodes, each preceded by its length).
//
// A node waits for its control and data dependencies. Sends, receives and collectives use the network, unless
// attribute is_cpu_op says that they run on the CPU: older converters of PyTorch traces also record the call
// that launches a collective. Those nodes and all others are compute steps of duration_micros. A collective
// of a process group (attribute pg_name) runs by the default algorithm of its kind. Its comm_size is the
// number of bytes that each rank has before it, as in ASTRA-sim. A collective in only some dimensions of a
// network (attribute involved_dim) is an error, because the file does not state the ranks in these
// dimensions.
//
// files are in order of ranks, and open opens one of them at a time. The trace uses at most memoryBytes of
// memory (0: no limit). Errors name the file and the node.
func ReadChakra(files []string, memoryBytes int64, open func(file string) (io.ReadCloser, error)) (*Trace,
	error) {
	t := &Trace{Ranks: len(files), equalSizes: true, memory: memory{limit: memoryBytes}}
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

// A chakraNode has the fields of a Node that are used here.
type chakraNode struct {
	id, kind, micros uint64
	deps             []uint64
	attributes       map[string]chakraValue
}

// A chakraValue is the value of an attribute.
type chakraValue struct {
	integer   int64
	isInteger bool // or a Boolean, 0 or 1
	text      string
	flags     []bool // of a list of Booleans
}

// Numbers of et_def.proto: NodeType and CollectiveCommType.
const (
	chakraSend       = 5
	chakraReceive    = 6
	chakraCollective = 7
	chakraKinds      = 10
	chakraBarrier    = 9
)

// chakraCollectives has the collectives that are supported, by CollectiveCommType.
var chakraCollectives = map[int64]string{
	0: "all-reduce", 2: "all-gather", 5: "broadcast", 6: "all-to-all", 7: "reduce-scatter", 8: "reduce-scatter",
	chakraBarrier: "all-reduce",
}

func (r *chakraReader) readAll(in *bufio.Reader) error {
	for i := 0; ; i++ {
		message, err := readMessage(in)
		if errors.Is(err, io.EOF) && i > 0 {
			break
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

// readMessage reads a message and its length. The error is io.EOF only at the end of the file.
func readMessage(in *bufio.Reader) ([]byte, error) {
	size, err := binary.ReadUvarint(in)
	if err != nil {
		return nil, err
	}
	if size > maxLineBytes {
		return nil, fmt.Errorf("a message of %d bytes", size)
	}
	message := make([]byte, size)
	_, err = io.ReadFull(in, message)
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return message, err
}

// node reads a Node.
func (r *chakraReader) node(message []byte) error {
	n := chakraNode{attributes: map[string]chakraValue{}}
	if err := fields(message, n.field); err != nil {
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
	r.deps = append(r.deps, n.deps)
	return errors.Join(r.add(o), r.memory.take(int64(len(n.deps))*dependencyMemory))
}

// field reads a field of a Node.
func (n *chakraNode) field(number protowire.Number, value uint64, data []byte) (err error) {
	switch number {
	case 1:
		n.id = value
	case 3:
		n.kind = value
	case 4, 5: // dependencies: one, or a packed list
		if data == nil {
			n.deps = append(n.deps, value)
			return nil
		}
		return packed(data, func(id uint64) { n.deps = append(n.deps, id) })
	case 7:
		n.micros = value
	case 10:
		return n.attribute(data)
	}
	return nil
}

// operation sets the operation of a node.
func (r *chakraReader) operation(n *chakraNode, o *op) error {
	onNetwork := n.kind == chakraSend || n.kind == chakraReceive || n.kind == chakraCollective
	switch onCPU := n.attributes["is_cpu_op"].integer == 1; {
	case onNetwork && !onCPU && n.kind == chakraCollective:
		return n.collective(o)
	case onNetwork && !onCPU:
		return n.message(o, r.Ranks)
	case n.kind == 0 || n.kind > chakraKinds || n.micros > math.MaxInt64/1000:
		return fmt.Errorf("type %d with a duration of %d µs", n.kind, n.micros)
	}
	o.durationNS = int64(n.micros) * 1000
	return nil
}

// message sets the operation of a node that sends or receives.
func (n *chakraNode) message(o *op, ranks int) error {
	end := "comm_dst"
	o.kind = opSend
	if n.kind == chakraReceive {
		end = "comm_src"
		o.kind = opReceive
	}
	peer, wrongPeer := n.integer(end, 0, int64(ranks))
	bytes, wrongSize := n.integer("comm_size", 0, math.MaxInt64)
	o.peer = int(peer)
	o.bytes = bytes
	if _, tagged := n.attributes["comm_tag"]; !tagged {
		return errors.Join(wrongPeer, wrongSize)
	}
	tag, wrongTag := n.integer("comm_tag", math.MinInt64, math.MaxInt64)
	o.tag = tag
	return errors.Join(wrongPeer, wrongSize, wrongTag)
}

// collective sets the operation of a node that is a collective.
func (n *chakraNode) collective(o *op) error {
	kind, err := n.integer("comm_type", 0, chakraKinds)
	if err != nil {
		return err
	}
	name := chakraCollectives[kind]
	if name == "" {
		return fmt.Errorf("collectives of type %d are not supported", kind)
	}
	if err := n.allDimensions(); err != nil {
		return err
	}
	o.kind = opCollective
	group := n.attributes["pg_name"]
	o.group = group.text
	if group.isInteger {
		o.group = strconv.FormatInt(group.integer, 10)
	}
	if kind == chakraBarrier {
		o.collective = &Collective{Kind: name, Algorithm: "tree", Bytes: 1}
		return nil
	}
	bytes, err := n.integer("comm_size", 0, math.MaxInt64/MaxRanks)
	o.collective = &Collective{Kind: name, Bytes: bytes}
	return err
}

// allDimensions returns an error for a collective in only some dimensions of the network, because ASTRA-sim
// takes their ranks from its configuration.
func (n *chakraNode) allDimensions() error {
	dimensions, given := n.attributes["involved_dim"]
	if dimensions.isInteger {
		dimensions.flags = []bool{dimensions.integer == 1}
	}
	switch {
	case given && dimensions.flags == nil:
		return errors.New("attribute involved_dim is not a list of Booleans")
	case slices.Contains(dimensions.flags, false):
		return fmt.Errorf("the collective takes place in some dimensions of the network only (involved_dim %v), "+
			"and the trace does not say which ranks these are", dimensions.flags)
	}
	return nil
}

// integer returns an integer attribute of any type. Its value must be at least least and below below.
func (n *chakraNode) integer(name string, least, below int64) (int64, error) {
	v, known := n.attributes[name]
	switch {
	case !known:
		return 0, fmt.Errorf("attribute %s is missing", name)
	case !v.isInteger:
		return 0, fmt.Errorf("attribute %s is not an integer below 2^63", name)
	case v.integer < least || v.integer >= below:
		return 0, fmt.Errorf("attribute %s is %d, want %d to %d", name, v.integer, least, below-1)
	}
	return v.integer, nil
}

// These are the fields of AttributeProto that are used, by the type of the value (et_def.proto).
const (
	chakraInt32    = 7
	chakraInt64    = 9
	chakraUint32   = 11
	chakraUint64   = 13
	chakraSint32   = 15
	chakraSint64   = 17
	chakraFixed32  = 19
	chakraFixed64  = 21
	chakraSfixed32 = 23
	chakraSfixed64 = 25
	chakraBool     = 27
	chakraBools    = 28
	chakraText     = 29
)

// attribute reads an AttributeProto. If no attribute that is read has this type, the value is ignored.
func (n *chakraNode) attribute(message []byte) error {
	var name string
	var v chakraValue
	err := fields(message, func(number protowire.Number, value uint64, data []byte) error {
		if number == 1 {
			name = string(data)
			return nil
		}
		return v.set(number, value, data)
	})
	if err != nil {
		return err
	}
	if before, twice := n.attributes[name]; twice && !reflect.DeepEqual(before, v) {
		return fmt.Errorf("attribute %s comes twice", name)
	}
	n.attributes[name] = v
	return nil
}

// set sets the value from a field of an AttributeProto. If a union has several fields, the last one applies.
func (v *chakraValue) set(number protowire.Number, value uint64, data []byte) error {
	switch number {
	case chakraInt32, chakraInt64, chakraUint32, chakraFixed32, chakraSfixed64, chakraBool:
		*v = chakraValue{isInteger: data == nil, integer: int64(value)}
	case chakraUint64, chakraFixed64:
		*v = chakraValue{isInteger: data == nil && value <= math.MaxInt64, integer: int64(value)}
	case chakraSint32, chakraSint64:
		*v = chakraValue{isInteger: data == nil, integer: protowire.DecodeZigZag(value)}
	case chakraSfixed32:
		*v = chakraValue{isInteger: data == nil, integer: int64(int32(value))}
	case chakraBools:
		*v = chakraValue{flags: []bool{}}
		return fields(data, func(number protowire.Number, value uint64, list []byte) error {
			if number != 1 {
				return nil
			}
			if list == nil {
				v.flags = append(v.flags, value != 0)
				return nil
			}
			return packed(list, func(flag uint64) { v.flags = append(v.flags, flag != 0) })
		})
	case chakraText:
		*v = chakraValue{text: string(data)}
	}
	return nil
}

// packed calls f with the integers of a packed list.
func packed(list []byte, f func(value uint64)) error {
	for len(list) > 0 {
		value, size := protowire.ConsumeVarint(list)
		if size < 0 {
			return protowire.ParseError(size)
		}
		f(value)
		list = list[size:]
	}
	return nil
}

// fields calls f with the fields of a message. data is nil except for strings, bytes, messages and packed
// numbers.
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
