package main

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"time"
)

// samplingRate is the number of packets of which an exporter of NetFlow samples one.
const samplingRate = 1000

// A dayFormat writes the records of a day as flow logs.
type dayFormat struct {
	name    string
	title   string
	sampled bool
	header  string
	// write writes what the observers of a record log.
	write func(l *dayLog, r *dayRecord)
}

var dayFormats = []dayFormat{
	{
		name: "vpc", title: "VPC text, both ends", write: (*dayLog).vpc,
		header: "version account-id interface-id srcaddr dstaddr srcport dstport protocol packets bytes start " +
			"end action log-status",
	},
	{
		name: "ipfix", title: "IPFIX biflows, both leaves", write: (*dayLog).ipfix,
		header: "flowStartMilliseconds,flowEndMilliseconds,sourceIPv4Address,destinationIPv4Address," +
			"sourceTransportPort,destinationTransportPort,protocolIdentifier,octetDeltaCount,packetDeltaCount," +
			"reverseOctetDeltaCount,reversePacketDeltaCount,exporterIPv4Address",
	},
	{
		name: "nfdump", title: "NetFlow, 1 in 1,000, both leaves", sampled: true, write: (*dayLog).nfdump,
		header: "ts,te,sa,da,sp,dp,pr,ipkt,ibyt,ra",
	},
}

// A dayLog is a file of records.
type dayLog struct {
	*bufio.Writer
	draw  *rand.Rand
	moves int // minute in which the first rack moves to other observers
	lines int64
}

// writeLog writes the log of a day, and returns the number of its records.
func (f *dayFormat) writeLog(file, kind string, minutes int, records []dayRecord) (lines int64, err error) {
	out, err := os.Create(file)
	if err != nil {
		return 0, err
	}
	l := newDayLog(out, minutes)
	if kind == "moves" {
		// The exporters of a connection are compared over ten minutes, and this minute is within them.
		l.moves = minutes/2 + 3
	}
	fmt.Fprintln(l, f.header)
	for i := range records {
		f.write(l, &records[i])
	}
	if err := l.Flush(); err != nil {
		return 0, err
	}
	return l.lines, out.Close()
}

// newDayLog returns a log whose traffic does not move.
func newDayLog(out io.Writer, minutes int) *dayLog {
	return &dayLog{Writer: bufio.NewWriter(out), draw: rand.New(rand.NewPCG(2, 0)), moves: minutes}
}

func (l *dayLog) line(format string, args ...any) {
	fmt.Fprintf(l, format+"\n", args...)
	l.lines++
}

func dayAddress(host int) string { return fmt.Sprintf("10.0.0.%d", 1+host) }

// moved is 1 for observers of the first rack after its traffic has moved, and otherwise 0.
func (l *dayLog) moved(host int, r *dayRecord) int {
	if host < hostsOfLeaf && r.minute >= l.moves {
		return 1
	}
	return 0
}

// leaves returns the exporters on the path of a record.
func (l *dayLog) leaves(r *dayRecord) (exporters []string) {
	hosts := []int{r.src, r.dst}
	if r.src/hostsOfLeaf == r.dst/hostsOfLeaf {
		hosts = hosts[:1]
	}
	for _, h := range hosts {
		exporters = append(exporters, fmt.Sprintf("10.255.%d.%d", l.moved(h, r), h/hostsOfLeaf))
	}
	return exporters
}

func (l *dayLog) vpc(r *dayRecord) {
	begin := dayBegin + 60*r.minute
	for _, h := range []int{r.src, r.dst} {
		for way, ends := range r.ways() {
			l.line("2 1 eni-%d-%d %s %s %d %d %d %d %d %d %d ACCEPT OK", h, l.moved(h, r), dayAddress(ends.src),
				dayAddress(ends.dst), ends.srcPort, ends.dstPort, r.protocol, r.packets[way], r.bytes(way),
				begin+r.fromS, begin+r.lastS)
		}
	}
}

func (l *dayLog) ipfix(r *dayRecord) {
	begin := 1000 * int64(dayBegin+60*r.minute)
	for _, exporter := range l.leaves(r) {
		l.line("%d,%d,%s,%s,%d,%d,%d,%d,%d,%d,%d,%s", begin+int64(1000*r.fromS), begin+int64(1000*r.lastS+500),
			dayAddress(r.src), dayAddress(r.dst), r.srcPort, r.dstPort, r.protocol, r.bytes(0), r.packets[0],
			r.bytes(1), r.packets[1], exporter)
	}
}

func (l *dayLog) nfdump(r *dayRecord) {
	begin := time.Unix(int64(dayBegin+60*r.minute), 0).UTC()
	for _, exporter := range l.leaves(r) {
		for way, ends := range r.ways() {
			n := l.sampled(r.packets[way])
			if n == 0 {
				continue
			}
			// The first and the last of n packets at random times.
			seconds := float64(r.lastS - r.fromS)
			first := seconds * (1 - math.Pow(l.draw.Float64(), 1/float64(n)))
			last := seconds
			if n == 1 {
				last = first
			} else {
				last -= (seconds - first) * (1 - math.Pow(l.draw.Float64(), 1/float64(n-1)))
			}
			from := begin.Add(time.Duration((float64(r.fromS) + first) * 1e9))
			to := begin.Add(time.Duration((float64(r.fromS) + last) * 1e9))
			const milliseconds = "2006-01-02 15:04:05.000"
			l.line("%s,%s,%s,%s,%d,%d,%d,%d,%d,%s", from.Format(milliseconds), to.Format(milliseconds),
				dayAddress(ends.src), dayAddress(ends.dst), ends.srcPort, ends.dstPort, r.protocol, n,
				n*r.packetBytes[way], exporter)
		}
	}
}

// sampled draws how many packets an exporter samples. The number of many samples is normal.
func (l *dayLog) sampled(packets int64) (n int64) {
	const p = 1.0 / samplingRate
	mean := float64(packets) * p
	if mean > 100 {
		return max(0, int64(math.Round(mean+l.draw.NormFloat64()*math.Sqrt(mean*(1-p)))))
	}
	for at := int64(0); ; n++ {
		at += 1 + int64(math.Log(1-l.draw.Float64())/math.Log1p(-p))
		if at > packets {
			return n
		}
	}
}

// dayEnds are the ends of one direction of a connection.
type dayEnds struct{ src, dst, srcPort, dstPort int }

// ways returns the ends of both directions.
func (c *dayConnection) ways() [2]dayEnds {
	return [2]dayEnds{{c.src, c.dst, c.srcPort, c.dstPort}, {c.dst, c.src, c.dstPort, c.srcPort}}
}

// dayInputs are the files that ingest needs beside the log.
type dayInputs struct{ cables, hosts, labels string }

// writeDayInputs writes the network, with hosts of 25 Gbps and links of 100 Gbps, its hosts and its services.
func (b *bench) writeDayInputs() dayInputs {
	var cables, hosts strings.Builder
	cables.WriteString("device_a,port_a,device_b,port_b,speed\n")
	hosts.WriteString("address,node\n")
	for h := range dayHosts {
		fmt.Fprintf(&cables, "h%d,eth0,leaf%d,E%d,25G\n", h, h/hostsOfLeaf, h)
		fmt.Fprintf(&hosts, "%s,h%d\n", dayAddress(h), h)
	}
	for leaf := range dayHosts / hostsOfLeaf {
		fmt.Fprintf(&cables, "leaf%d,E99,spine0,E%d,100G\n", leaf, leaf)
	}
	return dayInputs{
		cables: b.file("cables.csv", cables.String()), hosts: b.file("hosts.csv", hosts.String()),
		labels: b.file("labels.csv", "cidr,port,service,vnet\n10.0.0.0/24,5432,db,p\n10.0.0.0/24,9092,kafka,p\n"+
			"10.0.0.0/24,443,web,p\n10.0.0.0/24,2049,backup,p\n10.0.0.0/24,,tunnel,p\n"),
	}
}
