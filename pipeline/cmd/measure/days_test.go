package main

import (
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// bytesOfLog adds up the records of an observer of each connection. Columns are those of the ends, of the
// bytes and of the start.
func bytesOfLog(t *testing.T, file, format string, minutes int) *dayTruth {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	number := func(cell string) int {
		n, err := strconv.Atoi(cell)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	host := func(address string) int { return number(address[strings.LastIndex(address, ".")+1:]) - 1 }
	found := newDayTruth(minutes)
	add := func(src, dst, startS int, bytes string) {
		for _, link := range dayPath(src, dst) {
			found.bytes[link][(startS-dayBegin)/60] += float64(number(bytes))
		}
	}
	for _, line := range strings.Split(strings.TrimSpace(string(text)), "\n")[1:] {
		switch format {
		case "vpc":
			cells := strings.Fields(line)
			src := host(cells[3])
			if strings.HasPrefix(cells[2], "eni-"+strconv.Itoa(src)+"-") {
				add(src, host(cells[4]), number(cells[10]), cells[9])
			}
		case "ipfix":
			cells := strings.Split(line, ",")
			src := host(cells[2])
			if strings.HasSuffix(cells[11], "."+strconv.Itoa(src/hostsOfLeaf)) {
				add(src, host(cells[3]), number(cells[0])/1000, cells[7])
				add(host(cells[3]), src, number(cells[0])/1000, cells[9])
			}
		}
	}
	return found
}

// What the generator writes down is what its logs have. Otherwise, the days would measure its faults.
func TestTruthOfADayIsItsLog(t *testing.T) {
	const minutes = 60
	for _, kind := range dayKinds {
		records, truth := newDay(kind, minutes)
		for i := range dayFormats {
			f := &dayFormats[i]
			file := filepath.Join(t.TempDir(), "log")
			lines, err := f.writeLog(file, kind, minutes, records)
			if err != nil || lines == 0 {
				t.Fatalf("%s: %d lines, %v", f.name, lines, err)
			}
			if f.sampled {
				continue
			}
			a := truth.compare(bytesOfLog(t, file, f.name, minutes))
			if a.Cells < minutes || a.Close != a.Cells || a.Worst != 0 || a.Total != 0 || a.Misplaced != 0 {
				t.Errorf("%s as %s: %+v", kind, f.name, a)
			}
		}
	}
}

// Sampled packets are as many as the rate says, for few packets and for many.
func TestPacketsAreSampledAtTheRate(t *testing.T) {
	l := newDayLog(nil, 60)
	for _, packets := range []int64{200, 20_000, 2_000_000} {
		sum := 0.0
		const draws = 2000
		for range draws {
			sum += float64(l.sampled(packets))
		}
		mean := float64(packets) / samplingRate
		off := (sum/draws - mean) / math.Sqrt(mean/draws)
		if math.Abs(off) > 4 {
			t.Errorf("%d packets: %.4f samples on average, want %.4f", packets, sum/draws, mean)
		}
	}
}

// Bytes in the wrong minute are misplaced, and do not change the total.
func TestAgreementCountsMisplacedBytes(t *testing.T) {
	truth := newDayTruth(2)
	found := newDayTruth(2)
	truth.bytes[3] = []float64{100, 300}
	truth.variance[3] = []float64{2500, 2500}
	found.bytes[3] = []float64{200, 200}
	a := truth.compare(found)
	if a.Cells != 2 || a.Close != 0 || a.Total != 0 || a.Misplaced != 0.25 || a.Worst != 1 || a.Sigmas != 2 {
		t.Errorf("%+v", a)
	}
}
