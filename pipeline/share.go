package pipeline

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/zeebo/xxh3"
)

// This file is how several processes, on one machine or many, do the tasks of one stage on a lake that
// all of them see. Each does a share; nothing passes between them but files of the lake.
//
// They hold the scenario's lock shared, so that no run that would start a stage again comes between,
// and the stage's lock shared while they work on its plan. The first to come takes the stage's lock
// alone and writes the plan; the others find it, and refuse to work if it is not the one they would
// have made.
//
// A task may be done by several processes at once, by mistake or because an engine does not wait for a
// slow one. Each writes files of its own; the first to write the record has done the task, and who
// comes later and finds a record lets his own files go. Two that finish in the same moment may both
// put files in place: each, after writing the record, makes sure that it is about the files that
// stand there. The rows are the same whoever wrote them.
//
// What only passes tell each other goes as soon as nobody needs it (tidy.go), and an attempt may come late:
// begun before its task was done by another, at work when all is done and what it reads is gone, or what it
// writes not wanted any more. So a record that says that files are gone stands for a task that is done; it is written
// before they go; and an attempt that fails while its task is done has not failed. One that puts a file in
// place all the same finds, after writing the record, that the file is there, or notes that it is gone; and who
// lets go looks, after the files are gone, whether all records say so.

// A Share says which of a stage's tasks a process does, when Count of them divide the tasks among
// themselves: those of number Index, from 0 to Count - 1. The zero Share is that of a process on its
// own, which does all of them and keeps others out of the scenario.
type Share struct{ Index, Count int }

// maxShares bounds Share.Count.
const maxShares = 99_999

// ParseShare reads "I/N".
func ParseShare(text string) (Share, error) {
	i, n, ok := strings.Cut(text, "/")
	index, err := strconv.Atoi(i)
	count, err2 := strconv.Atoi(n)
	if !ok || err != nil || err2 != nil || index < 0 || index >= count || count > maxShares {
		return Share{}, fmt.Errorf("%q: want I/N, share I (0 to N - 1) of N (1 to %d)", text, maxShares)
	}
	return Share{index, count}, nil
}

// String is the inverse of ParseShare.
func (s Share) String() string { return fmt.Sprintf("%d/%d", s.Index, s.Count) }

// takes answers the share of each task, by number: the costliest first, each to the share that has
// least so far. It depends on nothing but the tasks and the number of shares.
func takes(tasks []task, count int) []int {
	order := make([]int, len(tasks))
	for n := range order {
		order[n] = n
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(tasks[b].Cost, tasks[a].Cost) })
	type load struct{ cost, tasks int64 }
	loads := make([]load, min(count, len(tasks))) // the first of them come first: more would get nothing
	of := make([]int, len(tasks))
	for _, n := range order {
		least := 0
		for i, l := range loads {
			if l.cost < loads[least].cost || l.cost == loads[least].cost && l.tasks < loads[least].tasks {
				least = i
			}
		}
		of[n] = least
		loads[least].cost += tasks[n].Cost
		loads[least].tasks++
	}
	return of
}

// A choice picks the tasks of a stage that a process does; nil: all of them, and no other process
// does any.
type choice func(tasks []task) []bool

func (s Share) choice() choice {
	if s.Count == 0 {
		return nil
	}
	return func(tasks []task) []bool {
		mine := make([]bool, len(tasks))
		for n, of := range takes(tasks, s.Count) {
			mine[n] = of == s.Index
		}
		return mine
	}
}

// shared says whether other processes may be at work on the run's scenario.
func (r *Run) shared() bool { return r.choose != nil }

// chosen says which tasks of a stage the run does.
func (r *Run) chosen(tasks []task) []bool {
	if r.choose != nil {
		return r.choose(tasks)
	}
	return everyTask(tasks)
}

// whole says whether every task of a stage is done: always, in a process on its own that has done it.
func (r *Run) whole(s stage) bool {
	if !r.shared() {
		return true
	}
	_, _, err := s.complete(r.lake)
	return err == nil
}

// sharesState says, in the state of a stage, into how many shares it was last divided.
const sharesState = "shares.json"

// settle makes the plan of a stage the one in force and answers the records of the tasks that are
// done, as far as this run is concerned. Until release, nobody starts the stage again.
func (r *Run) settle(s stage, plan stagePlan, mine []bool) (done []*taskRecord, release func(), err error) {
	if !r.shared() {
		if err := r.plan(s, plan); err != nil {
			return nil, nil, err
		}
		done, err = r.resume(s, plan, mine)
		return done, func() {}, err
	}
	path := r.lake.statePath(s.place, s.name+".lock")
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, nil, err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, nil, err
	}
	fail := func(err error) ([]*taskRecord, func(), error) {
		_ = f.Close() // and so the lock goes
		return nil, nil, err
	}
	switch err := flock(f, syscall.LOCK_EX|syscall.LOCK_NB); {
	case err == nil: // nobody works on it
		if err := r.plan(s, plan); err != nil {
			return fail(err)
		}
	case !errors.Is(err, syscall.EWOULDBLOCK):
		return fail(err)
	}
	if err := flock(f, syscall.LOCK_SH); err != nil { // others work on it, or one plans it now
		return fail(err)
	}
	var now stagePlan
	if found, err := r.lake.readState(s.path(r.lake, "plan.json"), &now); err != nil {
		return fail(err)
	} else if !found || !now.equal(plan) {
		return fail(s.otherPlan(now, plan))
	}
	if r.share.Count > 0 {
		if err := r.lake.writeState(s.path(r.lake, sharesState), r.share.Count); err != nil {
			return fail(err)
		}
	}
	done, err = r.resume(s, plan, mine)
	if err != nil {
		return fail(err)
	}
	return done, func() { _ = f.Close() }, nil
}

// otherPlan is the error of one of several processes whose plan is not that of the others.
func (s stage) otherPlan(now, want stagePlan) error {
	return fmt.Errorf("stage %s of scenario %s was begun with another plan (%d tasks; this would be %d): every process needs the same --partitions and the same program; without --shard the stage begins again",
		s.name, s.place.scenario, len(now.Tasks), len(want.Tasks))
}

// endShare says, at the end of a share, how much of the stage is left to others; if nothing is, it lets go
// of what nobody needs any more.
func (r *Run) endShare(s stage) error {
	if r.share.Count == 0 {
		return nil
	}
	plan, done, _, err := s.records(r.lake)
	if err != nil {
		return nil // who needs the stage will say so
	}
	log := r.log.Info().Str("stage", s.name).Str("shard", r.share.String())
	if slices.Contains(done, nil) {
		left, shares := s.missing(r.lake, plan, done)
		log.Msg("share done; so far " + left + ", those of --shard " + shares)
		return nil
	}
	log.Msg("share done; the stage is complete")
	return r.tidyAfter(s)
}

// flock locks a file, or answers EWOULDBLOCK, wrapped, if it may not wait.
func flock(f *os.File, how int) error {
	for {
		err := syscall.Flock(int(f.Fd()), how)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil {
			return fmt.Errorf("locking %s: %w", f.Name(), err)
		}
		return nil
	}
}

// lockShared is lock for processes that share a scenario. Files are written below a directory of its
// own; the last to let go clears what killed ones have left.
func (l *Lake) lockShared(scenario string) (unlock func(), err error) {
	dir := "scenario=" + scenario
	path := filepath.Join(l.root, stateDir, dir, "lock")
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	// A process that leaves has the lock alone for a moment, if it is the last.
	err = flock(f, syscall.LOCK_SH|syscall.LOCK_NB)
	for patience := 20; patience > 0 && errors.Is(err, syscall.EWOULDBLOCK); patience-- {
		time.Sleep(100 * time.Millisecond)
		err = flock(f, syscall.LOCK_SH|syscall.LOCK_NB)
	}
	if err != nil {
		_ = f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("scenario %s in lake %s: %w, on its own", scenario, l.root, ErrBusy)
		}
		return nil, err
	}
	all := filepath.Join(l.root, tmpDir, dir)
	err = os.MkdirAll(all, 0o755)
	if err == nil {
		l.tmp, err = os.MkdirTemp(all, "share-*")
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	mine := l.tmp
	return func() {
		_ = os.RemoveAll(mine)
		if flock(f, syscall.LOCK_EX|syscall.LOCK_NB) == nil { // nobody else is there
			_ = os.RemoveAll(all)
			_ = os.Remove(filepath.Dir(all)) // if no other scenario is being written
		}
		_ = f.Close()
	}, nil
}

// errTaken ends a task that another process has done meanwhile.
var errTaken = errors.New("another process has done the task")

// taken answers the record of a task, if it is done and its files are there, or not needed any more. A late
// attempt that has just written the record may be about to find that they are gone: that is waited for.
func (r *Run) taken(s stage, n int) (*taskRecord, bool) {
	for patience := 50; patience > 0; patience-- {
		var rec taskRecord
		if ok, err := r.lake.readState(s.path(r.lake, recordName(n)), &rec); err != nil || !ok {
			return nil, false
		}
		if !slices.ContainsFunc(rec.Parts, func(p part) bool { return !p.Gone && r.lake.checkSize(p) != nil }) {
			return &rec, true
		}
		time.Sleep(20 * time.Millisecond)
	}
	return nil, false
}

// goneSince answers the record of a task of which another process has let files go since it was read.
func (r *Run) goneSince(s stage, n int) (*taskRecord, bool) {
	if !r.shared() {
		return nil, false
	}
	rec, ok := r.taken(s, n)
	return rec, ok && rec.gone()
}

// record writes the record of a task whose files are in place. Where another process has put files of
// its own there since, the record is made to be about those.
func (r *Run) record(s stage, n int, rec *taskRecord) error {
	path := s.path(r.lake, recordName(n))
	if err := r.lake.writeState(path, rec); err != nil || !r.shared() {
		return err
	}
	for i := 0; i < len(rec.Parts); i++ {
		p := &rec.Parts[i]
		if p.Gone || r.lake.isOurs(*p) {
			continue
		}
		now, err := r.lake.describe(*p)
		if errors.Is(err, fs.ErrNotExist) && canGo(p.Path) {
			now, err = *p, nil
			now.Gone = true
		}
		if err != nil {
			return err
		}
		*p = now
		if err := r.lake.writeState(path, rec); err != nil {
			return err
		}
		i = -1 // look at all of them again
	}
	return nil
}

// isOurs says whether the file of a part is the one that this process has put there, or looked at.
func (l *Lake) isOurs(p part) bool {
	info, err := os.Stat(filepath.Join(l.root, filepath.FromSlash(p.Path)))
	return err == nil && p.file != nil && os.SameFile(info, p.file) && info.Size() == p.Bytes
}

// describe makes a part of the file that stands where p says.
func (l *Lake) describe(p part) (part, error) {
	path := filepath.Join(l.root, filepath.FromSlash(p.Path))
	f, err := os.Open(path)
	if err != nil {
		return part{}, err
	}
	defer closeQuietly(f)
	info, err := f.Stat()
	if err != nil {
		return part{}, err
	}
	t, err := tableOf(p.Path)
	if err != nil {
		return part{}, err
	}
	rows, err := parquetRows(path, t)
	if err != nil {
		return part{}, err
	}
	digest, err := digestFile(f)
	if err != nil {
		return part{}, fmt.Errorf("%s: %w", path, err)
	}
	return part{Path: p.Path, Rows: rows, Bytes: info.Size(), Digest: digest, file: info}, nil
}

func digestFile(f *os.File) (string, error) {
	hash := xxh3.New()
	if _, err := f.WriteTo(hash); err != nil {
		return "", err
	}
	return fmt.Sprintf("%016x", hash.Sum64()), nil
}

// missing says in words which tasks of a stage are not done, and of which shares they are, "1, 3/4",
// if it was last done in shares.
func (s stage) missing(l *Lake, plan stagePlan, done []*taskRecord) (text, of string) {
	var tasks []int
	for n, rec := range done {
		if rec == nil {
			tasks = append(tasks, n+1)
		}
	}
	text = fmt.Sprintf("%d of %d tasks are not done (%s)", len(tasks), len(done), ranges(tasks))
	var count int
	if ok, err := l.readState(s.path(l, sharesState), &count); err != nil || !ok || count < 1 {
		return text, ""
	}
	var shares []int
	share := takes(plan.Tasks, count)
	for _, n := range tasks {
		shares = append(shares, share[n-1])
	}
	slices.Sort(shares)
	return text, fmt.Sprintf("%s/%d", ranges(slices.Compact(shares)), count)
}

// ranges writes ascending numbers as "0, 3-5, 9", the first dozen of such pieces.
func ranges(numbers []int) string {
	var pieces []string
	for i := 0; i < len(numbers); {
		j := i
		for j+1 < len(numbers) && numbers[j+1] == numbers[j]+1 {
			j++
		}
		piece := strconv.Itoa(numbers[i])
		if j > i {
			piece += "-" + strconv.Itoa(numbers[j])
		}
		pieces = append(pieces, piece)
		i = j + 1
	}
	const most = 12
	if len(pieces) > most {
		pieces = append(pieces[:most], "…")
	}
	return strings.Join(pieces, ", ")
}
