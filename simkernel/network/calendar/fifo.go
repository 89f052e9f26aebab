package calendar

// A Fifo is a queue of items in order of arrival.
type Fifo struct {
	Buf     []Item
	Head    int32 // Buf[Head:] is the queue
	Arrived int32 // Buf[Head:Arrived] has arrived: its bytes are counted
}

// Empty reports whether nothing waits.
func (f *Fifo) Empty() bool { return int(f.Head) == len(f.Buf) }

// Push appends an item.
func (f *Fifo) Push(it Item) { f.Buf = append(f.Buf, it) }

// Trim removes the items that have been taken, if these are all or most, and returns how many it removed.
func (f *Fifo) Trim() (taken int32) {
	taken = f.Head
	if int(taken) == len(f.Buf) {
		f.Buf = f.Buf[:0]
		f.Head = 0
		f.Arrived = 0
	} else if taken >= 32 && int(taken)*2 > len(f.Buf) {
		f.Buf = f.Buf[:copy(f.Buf, f.Buf[taken:])]
		f.Arrived -= taken
		f.Head = 0
	} else {
		return 0
	}
	return taken
}

// Reset empties the queue.
func (f *Fifo) Reset() *Fifo {
	f.Buf = f.Buf[:0]
	f.Head = 0
	f.Arrived = 0
	return f
}

// Take moves the content of another queue into this one, which is empty.
func (f *Fifo) Take(from *Fifo) {
	f.Buf = append(f.Buf[:0], from.Buf[from.Head:]...)
	f.Head, f.Arrived = 0, from.Arrived-from.Head
}
