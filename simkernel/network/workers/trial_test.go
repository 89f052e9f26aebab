package workers

import (
	"slices"
	"testing"
	"time"
)

// rates of 1, 2 and 4 workers, in items per ns.
type rates map[int]float64

// periods returns the numbers of workers that take part in the periods of a trial.
func periods(t *trial, r rates, active, most, count int) (numbers []int) {
	for range count {
		active = t.after(r[active], active, most)
		numbers = append(numbers, active)
	}
	return numbers
}

// A trial of another number lasts one period between two of the present number. The number changes if the
// mean gain, of which a trial counts half, is above 5%. If it never changed, a busy machine would slow every
// run down. If it always did, runs would spend their time on trials.
func TestTrialsOfOtherNumbers(t *testing.T) {
	for _, c := range []struct {
		name         string
		rates        rates
		active, most int
		want         []int
	}{
		// Two are 30% faster: 1 → 2 after one trial. Four periods later, one worker is tried again: it has half
		// of 26% and 12.5%, which is 25% at most in one trial.
		{"more workers", rates{1: 1, 2: 1.3}, 1, 2, []int{2, 1, 2, 2, 2, 2, 1, 2, 2, 2}},
		// The gain of 9% counts half at first, which is not enough.
		{"a small gain", rates{1: 1, 2: 1.09}, 1, 2, []int{2, 1, 1, 1, 1, 1}},
		{"a large gain", rates{1: 1, 2: 1.12}, 1, 2, []int{2, 1, 2, 2, 2, 2}},
		// Two of four are as fast, and then faster.
		{"fewer workers", rates{2: 1.2, 4: 1}, 4, 4, []int{2, 4, 2, 2, 2, 2}},
		{"no fewer workers", rates{2: 1, 4: 1}, 4, 4, []int{2, 4, 4, 4, 4, 4}},
		{"never more than there are", rates{2: 1, 3: 2}, 2, 3, []int{3, 2, 3, 3, 3}},
	} {
		got := periods(&trial{left: 1}, c.rates, c.active, c.most, len(c.want))
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v workers, want %v", c.name, got, c.want)
		}
	}
}

// The next trial is later by one period for each half percent of the mean gain. A clear result is not tried
// again soon, because trials cost time.
func TestTrialsAreRareIfTheirResultIsClear(t *testing.T) {
	for slower, want := range map[float64]int{1: 4, 0.985: 5, 0.5: 29} {
		// One worker is tried, which is slower than two.
		c := &trial{left: 1}
		numbers := periods(c, rates{1: slower, 2: 1}, 2, 2, 40)
		next := slices.Index(numbers[2:], 1)
		if next != want {
			t.Errorf("one worker is %v as fast as two: the next trial after %d periods, want %d", slower, next, want)
		}
	}
}

// A rate is items per time. With another unit of one of two periods, a trial would compare nothing.
func TestRateIsItemsPerTime(t *testing.T) {
	c := trial{left: 1, since: time.Now().Add(-time.Second)}
	got := c.next(1, 2, 5e9)
	if got != 2 {
		t.Errorf("%d workers in the trial", got)
	}
	if c.before > 5 || c.before < 0.5 {
		t.Errorf("5e9 items in a second: %v items per ns", c.before)
	}
	c.since = time.Now().Add(time.Hour)
	got = c.next(2, 2, 1000)
	if got != 2 || c.items != 1000 {
		t.Errorf("%d workers before the period has ended, %d items", got, c.items)
	}
}

// Workers that do not take part take no domains, and do not disturb the others.
func TestWorkersThatDoNotTakePart(t *testing.T) {
	all := []*chained{{}, {}, {}}
	var domains []Domain
	for i, c := range all {
		c.all = all
		c.neighbors = []int32{int32((i + 1) % 3)}
		domains = append(domains, c)
	}
	w := Start(domains, 3, Settings{StepPS: 10})
	defer w.Stop()
	w.active = 2
	w.owned = [][]int32{{0, 1}, {2}}
	for step := int64(1); step < 2000; step += 2 {
		w.Run(step, 100+10*(step-1), 2)
	}
	for d, c := range all {
		if c.faults.Load() > 0 || c.done.Load() != 2000 {
			t.Errorf("domain %d: %d steps, %d out of order", d, c.done.Load(), c.faults.Load())
		}
	}
}

// The owners of domains change if the number of workers has, or if one has more than 1.1 times the mean work.
// Otherwise domains stay in the caches of their owners.
func TestBalance(t *testing.T) {
	for _, c := range []struct {
		name   string
		owned  [][]int32
		work   []int64
		active int
		want   [][]int32
	}{
		{"balanced", [][]int32{{0, 1}, {2}}, []int64{4, 3, 7}, 2, [][]int32{{0, 1}, {2}}},
		{"1.1 times the mean", [][]int32{{0, 1}, {2}}, []int64{5, 6, 9}, 2, [][]int32{{0, 1}, {2}}},
		{"more", [][]int32{{0, 1}, {2}}, []int64{5, 7, 9}, 2, [][]int32{{2}, {1, 0}}},
		{"fewer workers", [][]int32{{0}, {1}, {2}}, []int64{1, 2, 3}, 2, [][]int32{{2}, {1, 0}}},
		{"more workers", [][]int32{{0, 1, 2}}, []int64{1, 1, 1}, 3, [][]int32{{0}, {1}, {2}}},
	} {
		w := &Pool{}
		w.owned = c.owned
		w.work = c.work
		w.active = c.active
		w.balance()
		if !slices.EqualFunc(w.owned, c.want, slices.Equal[[]int32]) || slices.Max(w.work) != 0 {
			t.Errorf("%s: workers own %v, want %v; work %v", c.name, w.owned, c.want, w.work)
		}
	}
}

// Domains are shared anew after more than 400,000 items, or else they would keep the owners that fitted the
// traffic at the beginning.
func TestSettleSharesDomainsAnew(t *testing.T) {
	c := [2]*chained{{}, {}}
	w := Start([]Domain{c[0], c[1]}, 2, Settings{StepPS: 10, LeastWork: 100})
	defer w.Stop()
	one := Start([]Domain{c[0], c[1]}, 1, Settings{})
	if w.Alone || !one.Alone {
		t.Errorf("of two workers, one begins alone: %v; of one: %v", w.Alone, one.Alone)
	}
	one.Stop()
	w.owned = [][]int32{{0, 1}, {}}
	settle := func(work int64, want int) {
		t.Helper()
		c[0].work = work / 2
		c[1].work = work / 2
		w.Settle(1)
		if len(w.owned[0]) != want {
			t.Errorf("after %d items more, one worker owns %d of 2 domains, want %d", work, len(w.owned[0]), want)
		}
	}
	settle(400_000, 2)
	settle(2, 1)
	w.owned = [][]int32{{0, 1}, {}}
	settle(400_000, 2)
	for work, alone := range map[int64]bool{398: true, 400: false} {
		c[0].work = work / 2
		c[1].work = work / 2
		w.Settle(2)
		if w.Alone != alone {
			t.Errorf("two steps of %d items in two domains: one worker alone is %v", work, w.Alone)
		}
	}
}
