package laws

// A heap holds values by key, the least first.
type heap[T any] []keyed[T]

type keyed[T any] struct {
	key   int64
	value T
}

func (h *heap[T]) push(key int64, value T) {
	*h = append(*h, keyed[T]{key, value})
	a := *h
	i := len(a) - 1
	for i > 0 {
		up := (i - 1) / 2
		if a[up].key <= a[i].key {
			return
		}
		a[up], a[i] = a[i], a[up]
		i = up
	}
}

func (h *heap[T]) pop() T {
	a := *h
	top, n := a[0].value, len(a)-1
	a[0] = a[n]
	a = a[:n]
	for i := 0; ; {
		least := 2*i + 1
		if least >= n {
			break
		}
		if least+1 < n && a[least+1].key < a[least].key {
			least++
		}
		if a[i].key <= a[least].key {
			break
		}
		a[i], a[least] = a[least], a[i]
		i = least
	}
	*h = a
	return top
}
