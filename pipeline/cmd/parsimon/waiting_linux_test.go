package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// whileWaiting runs a command line while a lock is held. It calls change once the command has tried to take
// the lock, and then releases it.
func whileWaiting(t *testing.T, lock string, change func(), args ...string) (code int, stdout,
	stderr string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(lock), 0o755); err != nil {
		t.Fatal(err)
	}
	held, err := os.OpenFile(lock, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	if err := syscall.Flock(int(held.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	fd, err := syscall.InotifyInit1(syscall.IN_NONBLOCK | syscall.IN_CLOEXEC)
	if err == nil {
		_, err = syscall.InotifyAddWatch(fd, lock, syscall.IN_OPEN)
	}
	if err != nil {
		t.Fatal(err)
	}
	events := os.NewFile(uintptr(fd), "inotify")
	defer events.Close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		code, stdout, stderr = parsimon(t, args...)
	}()
	err = errors.Join(events.SetReadDeadline(time.Now().Add(5 * time.Minute)))
	if err == nil {
		_, err = events.Read(make([]byte, 4096)) // the command opens the lock
	}
	if err != nil {
		t.Errorf("the command does not try to take the lock: %v", err)
	}
	change()
	if err := held.Close(); err != nil {
		t.Error(err)
	}
	<-done
	return code, stdout, stderr
}

// A file is identified by its digest before a command waits for a lock, and read after it. If it is
// replaced meanwhile, the rows of the new file would be stored as those of the old one, and later commands
// would find them complete. The command must fail, keep nothing, and give the right rows when it is
// repeated.
func TestFilesThatChangeWhileACommandWaits(t *testing.T) {
	long(t)
	t.Chdir(t.TempDir())
	old := map[string]string{
		"net.yaml": "graph: {hosts: [a, b, c], switches: [s], bandwidth: 10Gbps, delay: 1us, cables: [\"a:s\", " +
			"\"b:s\", \"c:s\"]}\n",
		"hosts.csv":  "address,node\n10.0.0.1,a\n10.0.0.2,b\n",
		"labels.csv": "cidr,port,service,vnet\n10.0.0.0/24,,web,green\n",
		"day.csv":    "src,dst,size_bytes,start_ns\n10.0.0.1,10.0.0.2,20000,0\n",
		"flows.csv":  "src,dst,size_bytes,start_ns\na,b,20000,0\n",
	}
	changed := map[string]string{
		"hosts.csv":  "address,node\n10.0.0.1,c\n10.0.0.2,b\n",
		"labels.csv": "cidr,port,service,vnet\n10.0.0.0/24,,api,green\n",
		"day.csv":    "src,dst,size_bytes,start_ns\n10.0.0.1,10.0.0.2,77777,0\n",
		"flows.csv":  "src,dst,size_bytes,start_ns\na,b,77777,0\n",
	}
	writeFiles(t, old)
	ingest := []string{"ingest", "day.csv", "--topology", "net.yaml", "--hosts", "hosts.csv", "--labels",
		"labels.csv",
		"--workload", "w", "--wait", "5m", "-q", "--lake"}
	run := []string{"run", "--topology", "net.yaml", "--flows", "flows.csv", "--wait", "5m", "-q", "--lake"}
	must(t, append(run, "first")...)
	id := strings.TrimSpace(strings.TrimPrefix(ask(t, "first", "SELECT scenario FROM scenarios"), "scenario\n"))
	for _, file := range []string{"hosts.csv", "labels.csv", "day.csv", "flows.csv"} {
		lake := file + "-lake"
		command := ingest
		place := "workload=w"
		question := "SELECT src, service, size_bytes FROM workload_flows"
		want := "src,service,size_bytes\n0,web,20000\n"
		if file == "flows.csv" {
			command = run
			place = "scenario=" + id
			question = "SELECT size_bytes FROM flows"
			want = "size_bytes\n20000\n"
		}
		args := append(append([]string{}, command...), lake)
		replace := func() { writeFiles(t, map[string]string{file: changed[file]}) }
		code, _, log := whileWaiting(t, filepath.Join(lake, "_state", place, "lock"), replace, args...)
		if code != exitBusy || !strings.Contains(log, file+" was changed while this command was using it") {
			t.Errorf("%s changes: exit %d\n%s", file, code, log)
		}
		writeFiles(t, map[string]string{file: old[file]})
		must(t, args...)
		got := ask(t, lake, question)
		if got != want {
			t.Errorf("%s changed: rows\n%swant\n%s", file, got, want)
		}
	}
}
