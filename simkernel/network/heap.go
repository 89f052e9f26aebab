package network

// A minHeap is a binary heap whose first element comes before all others.
type minHeap[T interface{ Before(T) bool }] []T

func (h *minHeap[T]) push(x T) {
	s := append(*h, x)
	i := len(s) - 1
	for up := (i - 1) / 2; i > 0 && x.Before(s[up]); up = (i - 1) / 2 {
		s[i] = s[up]
		i = up
	}
	s[i] = x
	*h = s
}

func (h *minHeap[T]) pop() T {
	s := *h
	top := s[0]
	last := len(s) - 1
	*h = s[:last]
	if last > 0 {
		h.replace(s[last])
	}
	return top
}

// replace replaces the first element.
func (h minHeap[T]) replace(x T) {
	i := 0
	for down := 1; down < len(h); down = 2*i + 1 {
		if down+1 < len(h) && h[down+1].Before(h[down]) {
			down++
		}
		if !h[down].Before(x) {
			break
		}
		h[i] = h[down]
		i = down
	}
	h[i] = x
}
