package workloads

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// benchNfdump measures how nfdump sums up the bytes of each connection, sorts them and writes them. It reads
// and writes its own binary files. nfcapd has received the generated records as NetFlow version 5. The peak
// memory of nfdump is not measured, because Linux reports at least that of the process that starts it.
func benchNfdump(b *testing.B, records int) {
	for _, program := range []string{"nfcapd", "nfdump"} {
		if _, err := exec.LookPath(program); err != nil {
			b.Skip("nfdump is not installed: ", err)
		}
	}
	dir := b.TempDir()
	sent, total := captureBench(b, dir, records)
	files, err := filepath.Glob(filepath.Join(dir, "nfcapd.2*"))
	if err != nil || len(files) != 1 {
		b.Fatal("not one file of nfcapd: ", files, err)
	}
	info, err := exec.CommandContext(b.Context(), "nfdump", "-I", "-r", files[0]).CombinedOutput()
	if err != nil || !strings.Contains(string(info), fmt.Sprintf("\nFlows: %d\n", sent)) {
		b.Fatalf("nfcapd lost some of the %d records: %v\n%s", sent, err, info)
	}
	out := filepath.Join(dir, "sums")
	var processor time.Duration
	began := time.Now()
	for b.Loop() {
		cmd := exec.CommandContext(b.Context(), "nfdump", "-r", files[0], "-w", out, "-O", "tstart",
			"-A", "srcip,dstip,srcport,dstport,proto")
		if text, err := cmd.CombinedOutput(); err != nil {
			b.Fatalf("nfdump: %v\n%s", err, text)
		}
		processor += cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	}
	all := float64(sent * b.N)
	b.ReportMetric(all/time.Since(began).Seconds(), "records/s")
	b.ReportMetric(processor.Seconds()*1e6/all, "cpu-µs/record")
	sums, err := exec.CommandContext(b.Context(), "nfdump", "-I", "-r", out).CombinedOutput()
	if err != nil || !bytes.Contains(sums, fmt.Appendf(nil, "\nBytes: %d\n", total)) {
		b.Fatalf("the sums of nfdump are not of %d bytes: %v\n%s", total, err, sums)
	}
}

// captureBench sends generated records to nfcapd, which writes them to a file in a directory. It returns their
// number and bytes.
func captureBench(b *testing.B, dir string, records int) (sent, total int) {
	b.Helper()
	free, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		b.Fatal(err)
	}
	conn, err := net.Dial("udp4", free.LocalAddr().String())
	if err != nil {
		b.Fatal(err)
	}
	_, port, _ := strings.Cut(free.LocalAddr().String(), ":")
	if err := free.Close(); err != nil { // nfcapd takes the port
		b.Fatal(err)
	}
	collector := exec.CommandContext(b.Context(), "nfcapd", "-b", "127.0.0.1", "-p", port, "-l", dir,
		"-t", "86400", "-B", "8388608")
	var said bytes.Buffer
	collector.Stdout = &said
	collector.Stderr = &said
	if err := collector.Start(); err != nil {
		b.Fatal(err)
	}
	awaitQueue(b, port, 0)
	eachNetFlow(records, func(p *netFlow) {
		awaitQueue(b, port, 100_000)
		if _, err := conn.Write(p.packet); err != nil {
			b.Fatal(err)
		}
		sent += p.records
		total += p.bytes
	})
	awaitQueue(b, port, 0)
	if err := collector.Process.Signal(syscall.SIGTERM); err != nil {
		b.Fatal(err)
	}
	if err := collector.Wait(); err != nil {
		b.Fatalf("nfcapd: %v\n%s", err, said.Bytes())
	}
	return sent, total
}

// awaitQueue waits until a process receives at a UDP port and has at most the given number of bytes to read.
func awaitQueue(b *testing.B, port string, most int64) {
	b.Helper()
	number, err := strconv.Atoi(port)
	if err != nil {
		b.Fatal(err)
	}
	local := fmt.Sprintf(":%04X", number)
	for range 10_000 {
		table, err := os.ReadFile("/proc/net/udp")
		if err != nil {
			b.Fatal(err)
		}
		for line := range strings.Lines(string(table)) {
			columns := strings.Fields(line) // number, local address, remote address, state, queues
			if len(columns) < 5 || !strings.HasSuffix(columns[1], local) {
				continue
			}
			_, received, _ := strings.Cut(columns[4], ":")
			queue, err := strconv.ParseInt(received, 16, 64)
			if err != nil {
				b.Fatal(err)
			}
			if queue <= most {
				return
			}
		}
		time.Sleep(time.Millisecond)
	}
	b.Fatalf("nothing reads from UDP port %s", port)
}

// A netFlow is a packet of NetFlow version 5 that is being filled.
type netFlow struct {
	packet  []byte
	records int
	bytes   int // of the flows of its records
	sent    int // records of earlier packets
}

const (
	netFlowHeader  = 24
	netFlowRecords = 30 // largest number in a packet
	uptimeSeconds  = 2 * 3600
)

// eachNetFlow calls send for each packet with generated records.
func eachNetFlow(records int, send func(p *netFlow)) {
	p := &netFlow{packet: make([]byte, netFlowHeader)}
	eachBenchRecord(records, func(r benchRecord) {
		p.add(r)
		if p.records == netFlowRecords {
			send(p.finish())
			p.clear()
		}
	})
	if p.records > 0 {
		send(p.finish())
	}
}

// add adds a record. Its times are milliseconds since the start of the exporter.
func (p *netFlow) add(r benchRecord) {
	for _, node := range []int{r.src, r.dst} {
		a := netip.MustParseAddr(address(node)).As4()
		p.packet = append(p.packet, a[:]...)
	}
	p.packet = append(p.packet, 0, 0, 0, 0)
	p.packet = binary.BigEndian.AppendUint16(p.packet, uint16(r.observer))
	p.packet = binary.BigEndian.AppendUint16(p.packet, 0)
	for _, v := range []int{r.packets, r.bytes, (r.start - benchStart) * 1000, (r.end - benchStart) * 1000} {
		p.packet = binary.BigEndian.AppendUint32(p.packet, uint32(v))
	}
	p.packet = binary.BigEndian.AppendUint16(p.packet, uint16(r.port))
	p.packet = binary.BigEndian.AppendUint16(p.packet, 443)
	const tcp = 6
	p.packet = append(p.packet, 0, 0, tcp, 0, 0, 0, 0, 0, 0, 0, 0, 0)
	p.records++
	p.bytes += r.bytes
}

// finish writes the header and returns p.
func (p *netFlow) finish() *netFlow {
	binary.BigEndian.PutUint16(p.packet, 5)
	binary.BigEndian.PutUint16(p.packet[2:], uint16(p.records))
	binary.BigEndian.PutUint32(p.packet[4:], uptimeSeconds*1000)
	binary.BigEndian.PutUint32(p.packet[8:], benchStart+uptimeSeconds)
	binary.BigEndian.PutUint32(p.packet[16:], uint32(p.sent))
	return p
}

// clear begins the next packet.
func (p *netFlow) clear() {
	p.sent += p.records
	p.records = 0
	p.bytes = 0
	p.packet = p.packet[:netFlowHeader]
}
