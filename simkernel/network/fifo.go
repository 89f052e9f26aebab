package network

// A fifo is a queue of items in order of arrival.
type fifo struct {
	buf     []item
	head    int32 // buf[head:] is the queue
	arrived int32 // buf[head:arrived] is what port.leftBytes counts
}

func (f *fifo) empty() bool { return int(f.head) == len(f.buf) }

func (f *fifo) push(it item) { f.buf = append(f.buf, it) }

// trim removes the items that have been taken, if these are all or most, and returns how many it removed.
func (f *fifo) trim() (taken int32) {
	taken = f.head
	if int(taken) == len(f.buf) {
		f.buf = f.buf[:0]
		f.head = 0
		f.arrived = 0
	} else if taken >= 32 && int(taken)*2 > len(f.buf) {
		f.buf = f.buf[:copy(f.buf, f.buf[taken:])]
		f.arrived -= taken
		f.head = 0
	} else {
		return 0
	}
	return taken
}

// reset empties the queue.
func (f *fifo) reset() *fifo {
	f.buf = f.buf[:0]
	f.head = 0
	f.arrived = 0
	return f
}

// take moves the content of another queue into this one, which is empty.
func (f *fifo) take(from *fifo) {
	f.buf = append(f.buf[:0], from.buf[from.head:]...)
	f.head, f.arrived = 0, from.arrived-from.head
}
