// TCP in ns-3 on the network and flows of a file: the truth of `make tcp-ns3`. Written for ns-3.37 (Debian: libns3-dev).
//
// tcp TCP FILE QUEUE_BYTES MARK_BYTES MIN_RTO_NS: TCP is TcpNewReno, TcpCubic or TcpDctcp, or NewReno, Cubic or Dctcp, which
// are these with what RFCs say and ns-3 3.37 does not do; ports of switches are drop-tail, and mark packets that leave more than
// MARK_BYTES per 10 Gbps behind, unless it is 0. FILE has numbers: nodes, hosts (0 to hosts-1),
// links and flows; for each link two nodes, bps and delay in ns; for each flow source, destination, bytes and start in ns. It
// prints "fct FLOW NS" for each flow, and "drops PACKETS" of data.
//
// Connections are made before the first flow starts, so that FCTs have no handshake, and stay open.
#include <cstdio>
#include <fstream>
#include <iostream>
#include <vector>

#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"
#include "ns3/traffic-control-module.h"

using namespace ns3;

struct Flow {
  uint32_t src, dst;
  uint64_t size, startNS, received = 0, written = 0;
  Ptr<Socket> sender, listener;
};

static std::vector<Flow> flows;
static uint64_t drops = 0, done = 0;
static const int64_t kFirstNS = 2'000'000'000;  // when flows begin

static const uint32_t kIP = 1040, kWire = 1042;  // bytes of a full packet

namespace ns3 {
// RFC 6675, section 4, NextSeg. That of 3.37 lacks (1.b) in rule 3: packets in flight are sent again.
bool TcpTxBuffer::NextSeg(SequenceNumber32* seq, SequenceNumber32* end, bool recovers) const {
  SequenceNumber32 at = m_firstByteSeq, third;
  bool found = false;
  for (const TcpTxItem* item : m_sentList) {
    if (!item->m_retrans && !item->m_sacked) {
      if (item->m_lost) return *seq = at, *end = at + m_segmentSize, true;
      if (recovers && !found && m_highestSack.first != m_sentList.end() && at < m_highestSack.second) {
        third = at, found = true;
      }
    }
    at += item->m_packet->GetSize();
  }
  if (SizeFromSequence(m_firstByteSeq + m_sentSize) > 0) {
    const uint32_t window = m_rWndCallback();
    *seq = m_firstByteSeq + m_sentSize;
    return *end = *seq + std::min(m_segmentSize, window - m_sentSize), m_sentSize <= window;
  }
  if (found) *seq = third, *end = third + m_segmentSize;
  return found;
}
}  // namespace ns3

// What RFCs say of marks, and 3.37 does not do. echo: the ACK that is processed has ECE. timeout: that of the sender is.
static bool echo = false, timeout = false;
struct Tcp : public TcpSocketBase {
  static TypeId GetTypeId() {
    static TypeId id = TypeId("ns3::Tcp").SetParent<TcpSocketBase>().AddConstructor<Tcp>();
    return id;
  }
  Ptr<TcpSocketBase> Fork() override { return CopyObject<Tcp>(this); }
  bool In(TcpSocketState::TcpCongState_t a, TcpSocketState::TcpCongState_t b) const {
    return m_tcb->m_congState == a || m_tcb->m_congState == b;
  }
  void ReTxTimeout() override {
    timeout = true;
    TcpSocketBase::ReTxTimeout();
    timeout = false;
  }
  // RFC 8257, section 3.2: every packet says whether it was marked. That of 3.37 knows marks of the highest number only.
  void ReceivedData(Ptr<Packet> p, const TcpHeader& h) override {
    TcpSocketBase::ReceivedData(p, h);
    m_ecnCESeq = SequenceNumber32(0);
  }
  // RFC 3168, section 6.1.2: a window is reduced once. In 3.37 a mark ends the recovery from a loss or a timeout, and reduces
  // the window again.
  void ReceivedAck(Ptr<Packet> p, const TcpHeader& h) override {
    TcpHeader unmarked = h;
    echo = h.GetFlags() & TcpHeader::ECE;
    if (In(TcpSocketState::CA_RECOVERY, TcpSocketState::CA_LOSS)) unmarked.SetFlags(h.GetFlags() & ~TcpHeader::ECE);
    TcpSocketBase::ReceivedAck(p, unmarked);
  }
  // RFC 3168, section 6.1.2: a duplicate ACK echoes marks, too. RFC 8257, section 3.5, and RFC 6675, section 5: a loss begins a
  // recovery also while the window is being reduced for marks, which is the reduction of that window. In 3.37 neither is so.
  void ProcessAck(const SequenceNumber32& ack, bool sacks, uint32_t delivered, const SequenceNumber32& before) override {
    if (echo && ack == before && In(TcpSocketState::CA_OPEN, TcpSocketState::CA_DISORDER)) EnterCwr(delivered);
    if (sacks && m_tcb->m_congState == TcpSocketState::CA_CWR) {
      m_tcb->m_lastAckedSeq = ack;
      if (m_txBuffer->IsLost(ack)) {
        m_recover = m_tcb->m_highTxMark;
        m_recoverActive = true;
        m_tcb->m_congState = TcpSocketState::CA_RECOVERY;
        m_recoveryOps->EnterRecovery(m_tcb, m_dupAckCount, UnAckDataCount(), delivered);
        SendDataPacket(ack, m_tcb->m_segmentSize, true);
      } else {
        m_recoveryOps->DoRecovery(m_tcb, delivered);
      }
    }
    TcpSocketBase::ProcessAck(ack, sacks, delivered, before);
  }
};
NS_OBJECT_ENSURE_REGISTERED(Tcp);

// A socket of the TCP and recovery that are set, which is a Tcp.
static Ptr<Tcp> NewSocket(Ptr<Node> node) {
  Ptr<TcpL4Protocol> tcp = node->GetObject<TcpL4Protocol>();
  auto create = [&](const char* attribute) {
    TypeIdValue type;
    tcp->GetAttribute(attribute, type);
    return ObjectFactory(type.Get().GetName());
  };
  Ptr<Tcp> s = CreateObject<Tcp>();
  s->SetNode(node);
  s->SetTcp(tcp);
  s->SetRtt(CreateObject<RttMeanDeviation>());
  s->SetCongestionControlAlgorithm(create("SocketType").Create<TcpCongestionOps>());
  s->SetRecoveryAlgorithm(create("RecoveryType").Create<TcpRecoveryOps>());
  tcp->AddSocket(s);
  return s;
}

// Marks packets when they leave, as the HPCC simulator and ours do. When one leaves the queue, one is before it in the device.
struct Switch : public FifoQueueDisc {
  static TypeId GetTypeId() {
    static TypeId id = TypeId("ns3::Switch").SetParent<FifoQueueDisc>().AddConstructor<Switch>().AddAttribute(
        "Mark", "bytes; 0: none", UintegerValue(0), MakeUintegerAccessor(&Switch::mark), MakeUintegerChecker<uint32_t>());
    return id;
  }
  uint32_t mark = 0;
  Ptr<QueueDiscItem> DoDequeue() override {
    auto item = GetInternalQueue(0)->Dequeue();
    if (item && mark > 0 && GetInternalQueue(0)->GetNBytes() + kIP > mark) item->Mark();
    return item;
  }
};
NS_OBJECT_ENSURE_REGISTERED(Switch);

// RFC 9937, section 6.2. That of 3.37 counts what is delivered twice where an ACK is partial and has a new SACK.
struct Prr : public TcpRecoveryOps {
  static TypeId GetTypeId() {
    static TypeId id = TypeId("ns3::Prr").SetParent<TcpRecoveryOps>().AddConstructor<Prr>();
    return id;
  }
  int64_t delivered = 0, out = 0, flight = 0, last = 0;
  SequenceNumber32 una;
  Time when;
  std::string GetName() const override { return "Prr"; }
  void EnterRecovery(Ptr<TcpSocketState> s, uint32_t, uint32_t unacked, uint32_t now) override {
    delivered = out = 0, flight = unacked, una = s->m_lastAckedSeq;
    Set(s, now, false);
  }
  void DoRecovery(Ptr<TcpSocketState> s, uint32_t now) override {
    if (when == Simulator::Now() && last == now) return;
    const bool safe = s->m_lastAckedSeq > una;
    una = s->m_lastAckedSeq;
    Set(s, now, safe);
  }
  void Set(Ptr<TcpSocketState> s, int64_t now, bool safe) {
    const int64_t pipe = s->m_bytesInFlight, threshold = s->m_ssThresh, packet = s->m_segmentSize;
    when = Simulator::Now(), last = now, delivered += now;
    int64_t send = (delivered * threshold + flight - 1) / flight - out;
    if (pipe <= threshold) send = std::min(std::max(delivered - out, now) + (safe ? packet : 0), threshold - pipe);
    if (out == 0 && s->m_congState != TcpSocketState::CA_CWR) send = std::max(send, packet);
    s->m_cWnd = pipe + std::max<int64_t>(0, send);
    s->m_cWndInfl = s->m_cWnd;
  }
  void ExitRecovery(Ptr<TcpSocketState> s) override { s->m_cWndInfl = s->m_cWnd; }
  void UpdateBytesSent(uint32_t bytes) override { out += bytes; }
  Ptr<TcpRecoveryOps> Fork() override { return CopyObject<Prr>(this); }
};
NS_OBJECT_ENSURE_REGISTERED(Prr);

// Slow start of ns-3's CUBIC and DCTCP has no limit per ACK (L of RFC 3465, section 2.2: at most 2).
static uint32_t Limited(Ptr<const TcpSocketState> s, uint32_t segments) {
  return s->m_cWnd < s->m_ssThresh ? std::min<uint32_t>(segments, 2) : segments;
}

// What has been sent and is not acknowledged (RFC 5681, section 2). ns-3 leaves out what SACKs and losses say.
static uint32_t FlightSize(Ptr<const TcpSocketState> s) { return s->m_highTxMark.Get() - s->m_lastAckedSeq; }

#define TCP(name, parent)                                                                                   \
  static TypeId GetTypeId() {                                                                               \
    static TypeId id = TypeId("ns3::" #name).SetParent<parent>().AddConstructor<name>();                    \
    return id;                                                                                              \
  }                                                                                                         \
  Ptr<TcpCongestionOps> Fork() override { return CopyObject<name>(this); }

struct NewReno : public TcpNewReno {
  TCP(NewReno, TcpNewReno)
  uint32_t GetSsThresh(Ptr<const TcpSocketState> s, uint32_t) override {
    return TcpNewReno::GetSsThresh(s, FlightSize(s));  // RFC 5681, eq. 4
  }
};
NS_OBJECT_ENSURE_REGISTERED(NewReno);

struct Cubic : public TcpCubic {
  TCP(Cubic, TcpCubic)
  double est = 0, prior = 0;  // W_est and cwnd_prior
  uint32_t GetSsThresh(Ptr<const TcpSocketState> s, uint32_t flight) override {
    TcpCubic::GetSsThresh(s, flight);
    est = 0, prior = s->m_cWnd;
    return std::max<uint32_t>(0.7 * FlightSize(s), 2 * s->m_segmentSize);  // RFC 9438, section 4.6: not of cwnd
  }
  void IncreaseWindow(Ptr<TcpSocketState> s, uint32_t segments) override {  // section 4.3, which 3.37 has not
    segments = Limited(s, segments);
    if (s->m_cWnd >= s->m_ssThresh) {
      if (est == 0) est = s->m_cWnd;
      est += (est >= prior ? 1 : 0.9 / 1.7) * segments * s->m_segmentSize * s->m_segmentSize / s->m_cWnd;
    }
    TcpCubic::IncreaseWindow(s, segments);
    if (est > 0 && s->m_cWnd + s->m_segmentSize <= est) s->m_cWnd += s->m_segmentSize;
  }
};
NS_OBJECT_ENSURE_REGISTERED(Cubic);

struct Dctcp : public TcpDctcp {
  TCP(Dctcp, TcpDctcp)
  bool ce = false, delayed = false;
  void IncreaseWindow(Ptr<TcpSocketState> s, uint32_t segments) override {
    TcpDctcp::IncreaseWindow(s, Limited(s, segments));
  }
  // When marks begin or end, what waited for an ACK gets one at once (RFC 8257, section 3.2). That of 3.37 is for a packet
  // less, because the event comes before the new packet is in the buffer: nothing is acknowledged.
  void CwndEvent(Ptr<TcpSocketState> s, const TcpSocketState::TcpCAEvent_t event) override {
    const bool marked = event == TcpSocketState::CA_EVENT_ECN_IS_CE;
    if (event == TcpSocketState::CA_EVENT_DELAYED_ACK || event == TcpSocketState::CA_EVENT_NON_DELAYED_ACK) {
      delayed = event == TcpSocketState::CA_EVENT_DELAYED_ACK;
      return;
    }
    if (marked || event == TcpSocketState::CA_EVENT_ECN_NO_CE) {
      if (marked != ce && delayed) s->m_sendEmptyPacketCallback(ce ? TcpHeader::ACK | TcpHeader::ECE : TcpHeader::ACK);
      ce = marked;
    }
    TcpDctcp::CwndEvent(s, event);
  }
  // RFC 8257, section 3.3, steps 1 to 9: the first window ends with the first ACK, and SACKs do not count. In 3.37 the first
  // is one longer, and each duplicate ACK counts as a packet.
  double alpha = 1;
  uint32_t acked = 0, echoed = 0;
  SequenceNumber32 una{1}, end{1};
  void PktsAcked(Ptr<TcpSocketState> s, uint32_t, const Time&) override {
    const uint32_t bytes = s->m_lastAckedSeq > una ? s->m_lastAckedSeq - una : 0;
    una = s->m_lastAckedSeq, acked += bytes;
    if (echo) echoed += bytes;
    if (una <= end || acked == 0) return;
    alpha += (double(echoed) / acked - alpha) / 16;
    end = s->m_highTxMark, acked = echoed = 0;
  }
  // RFC 8257, section 3.5: a loss reduces as without marks, where 3.37 takes alpha. RFC 5681, eq. 4: at least 2 packets.
  uint32_t GetSsThresh(Ptr<const TcpSocketState> s, uint32_t) override {
    const bool loss = timeout || s->m_congState == TcpSocketState::CA_RECOVERY;
    return std::max<uint32_t>(loss ? FlightSize(s) / 2 : (1 - alpha / 2) * s->m_cWnd.Get(), 2 * s->m_segmentSize);
  }
};
NS_OBJECT_ENSURE_REGISTERED(Dctcp);

static void Received(size_t i, Ptr<Socket> s) {
  while (Ptr<Packet> p = s->Recv()) flows[i].received += p->GetSize();
  if (flows[i].received == flows[i].size) {
    std::printf("fct %zu %ld\n", i, Simulator::Now().GetNanoSeconds() - kFirstNS - (int64_t)flows[i].startNS);
    if (++done == flows.size()) Simulator::Stop();
  }
}

static void Write(size_t i) {
  Flow& f = flows[i];
  while (f.written < f.size) {
    uint64_t n = std::min<uint64_t>(f.size - f.written, 1'000'000);
    int sent = f.sender->Send(Create<Packet>(n));
    if (sent <= 0) return;
    f.written += sent;
  }
}

static void Connect(size_t i, Ipv4Address to, std::vector<Ptr<Node>> nodes) {
  Flow& f = flows[i];
  f.sender = NewSocket(nodes[f.src]);
  f.sender->Bind();
  f.sender->Connect(InetSocketAddress(to, 1024 + i));
}

int main(int argc, char** argv) {
  if (argc != 6) return std::fprintf(stderr, "tcp TCP FILE QUEUE_BYTES MARK_BYTES MIN_RTO_NS\n"), 2;
  const std::string kind = argv[1];
  const std::string queue = std::to_string((std::stoul(argv[3]) / kWire - 1) * kIP) + "B";  // and a packet in the device
  const double mark = std::stod(argv[4]);
  Config::SetDefault("ns3::TcpL4Protocol::SocketType", TypeIdValue(TypeId::LookupByName("ns3::" + kind)));
  Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(1000));
  Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(10));
  Config::SetDefault("ns3::TcpSocket::DelAckCount", UintegerValue(2));
  Config::SetDefault("ns3::TcpSocket::DelAckTimeout", TimeValue(MilliSeconds(1)));
  Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(1 << 30));
  Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(6 << 20));
  Config::SetDefault("ns3::TcpSocketBase::MinRto", TimeValue(NanoSeconds(std::stoll(argv[5]))));
  Config::SetDefault("ns3::TcpSocketBase::ClockGranularity", TimeValue(NanoSeconds(1)));
  Config::SetDefault("ns3::TcpSocketBase::Timestamp", BooleanValue(false));
  Config::SetDefault("ns3::TcpCubic::HyStart", BooleanValue(false));
  Config::SetDefault("ns3::TcpCubic::CntClamp", UintegerValue(255));  // growth by 5% at least: not of RFC 9438
  Config::SetDefault("ns3::TcpL4Protocol::RecoveryType", TypeIdValue(Prr::GetTypeId()));
  if (mark > 0) Config::SetDefault("ns3::TcpSocketBase::UseEcn", StringValue("On"));

  std::ifstream in(argv[2]);
  size_t nodeCount, hosts, links, flowCount;
  if (!(in >> nodeCount >> hosts >> links >> flowCount)) return std::fprintf(stderr, "%s: not read\n", argv[2]), 1;
  std::vector<Ptr<Node>> nodes;
  for (size_t i = 0; i < nodeCount; i++) nodes.push_back(CreateObject<Node>());
  InternetStackHelper stack;
  stack.InstallAll();
  std::vector<Ipv4Address> address(nodeCount);
  // Switches have one FIFO a port. Hosts serve their flows round robin, as fq does and ours do.
  TrafficControlHelper fair;
  fair.SetRootQueueDisc("ns3::FqCoDelQueueDisc", "MaxSize", StringValue("1000000p"), "Target", StringValue("1000s"),
                        "Interval", StringValue("1000s"), "Flows", UintegerValue(65536));
  Ipv4AddressHelper net("10.0.0.0", "255.255.255.252");
  for (size_t l = 0; l < links; l++) {
    uint32_t end[2];
    uint64_t bps, delay;
    in >> end[0] >> end[1] >> bps >> delay;
    PointToPointHelper link;
    link.SetDeviceAttribute("DataRate", DataRateValue(DataRate(bps)));
    link.SetDeviceAttribute("Mtu", UintegerValue(1040));  // the quantum of fair
    link.SetQueue("ns3::DropTailQueue", "MaxSize", StringValue("1p"));
    link.SetChannelAttribute("Delay", TimeValue(NanoSeconds(delay)));
    NetDeviceContainer devices = link.Install(nodes[end[0]], nodes[end[1]]);
    Ipv4InterfaceContainer got = net.Assign(devices);
    net.NewNetwork();
    TrafficControlHelper fifo;
    fifo.SetRootQueueDisc("ns3::Switch", "MaxSize", StringValue(queue), "Mark", UintegerValue(mark * bps / 1e10));
    for (int k = 0; k < 2; k++) {
      auto control = nodes[end[k]]->GetObject<TrafficControlLayer>();
      if (control->GetRootQueueDiscOnDevice(devices.Get(k))) TrafficControlHelper().Uninstall(devices.Get(k));
      auto disc = (end[k] < hosts ? fair : fifo).Install(devices.Get(k)).Get(0);
      if (end[k] < hosts) {
        address[end[k]] = got.GetAddress(k);
      } else {
        disc->TraceConnectWithoutContext(
            "DropBeforeEnqueue", MakeCallback(+[](Ptr<const QueueDiscItem> p, const char*) { drops += p->GetSize() > 120; }));
      }
    }
  }
  Ipv4GlobalRoutingHelper::PopulateRoutingTables();
  flows.resize(flowCount);
  for (size_t i = 0; i < flowCount; i++) {
    Flow& f = flows[i];
    if (!(in >> f.src >> f.dst >> f.size >> f.startNS)) return std::fprintf(stderr, "%s: flow %zu\n", argv[2], i), 1;
    f.listener = NewSocket(nodes[f.dst]);
    f.listener->Bind(InetSocketAddress(address[f.dst], 1024 + i));
    f.listener->Listen();
    f.listener->SetAcceptCallback(MakeNullCallback<bool, Ptr<Socket>, const Address&>(),
        Callback<void, Ptr<Socket>, const Address&>([i](Ptr<Socket> s, const Address&) {
          s->SetRecvCallback(Callback<void, Ptr<Socket>>([i](Ptr<Socket> t) { Received(i, t); }));
        }));
    Simulator::Schedule(NanoSeconds(100'000 + i * 50'000), [i, &nodes, to = address[f.dst]] { Connect(i, to, nodes); });
    Simulator::Schedule(NanoSeconds(kFirstNS + f.startNS), [i] { Write(i); });
  }
  Simulator::Stop(Seconds(600));
  Simulator::Run();
  std::printf("drops %lu\n", drops);
}
