package calendar

// A MinHeap is a binary heap whose first element comes before all others.
type MinHeap[T interface{ Before(T) bool }] []T

// Push adds an element.
func (h *MinHeap[T]) Push(x T) {
	s := append(*h, x)
	i := len(s) - 1
	for up := (i - 1) / 2; i > 0 && x.Before(s[up]); up = (i - 1) / 2 {
		s[i] = s[up]
		i = up
	}
	s[i] = x
	*h = s
}

// Pop removes the first element.
func (h *MinHeap[T]) Pop() T {
	s := *h
	top := s[0]
	last := len(s) - 1
	*h = s[:last]
	if last > 0 {
		h.Replace(s[last])
	}
	return top
}

// Replace replaces the first element.
func (h MinHeap[T]) Replace(x T) {
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
