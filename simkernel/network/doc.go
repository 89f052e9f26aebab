// Package network simulates every packet of every flow at every hop of its path, on all cores. It uses the
// same transports (simkernel.Sender), link speeds (simkernel.WireTime), queues and ideal FCTs as the link
// kernel. twin_test.go has a slow and simple simulator with which it must agree in every bit.
//
// # Model
//
// Switches store and forward. Each port of a switch has two FIFOs, one for ACKs and one for data. ACKs have
// strict priority, without preemption. A data packet is marked if more wire bytes of data than the link's
// threshold (Params.MarkBytes) remain behind it when its service starts. With Traits.AcksQueue there is one
// FIFO for both. With Traits.RandomMarks, packets are marked at random between two thresholds. Every data
// packet is acknowledged by one ACK of AckBytes, which returns over the reverse links and through the
// destination's NIC. A NIC sends ACKs first, then serves its sendable flows round robin, one packet each, and
// never marks. A flow with fewer bytes in flight than its window is sendable. It sends a full packet even if
// that exceeds the window.
//
// # Layers
//
// A layer uses those below it. The parts are features. A part is nil if the network does not use it.
//
//	packages           calendar    items, arrivals, the calendar of a domain, queues
//	                   packetset   which packets were received or acknowledged
//	                   roundrobin  which flow of a NIC sends next
//	                   faults      when links are down, lose packets or are slower
//	                   partition   nodes by domain
//	                   workers     domains on several cores
//	port and NIC       port.go table.go sender.go nic.go
//	parts              classes.go                                  classes: queues by class
//	                   buffer.go                                   buffers: limited, shared by a switch
//	                   pfc.go                                      pfc: pauses
//	                   recovery.go receiver.go timeout.go irn.go losses.go    recovery from losses
//	                   tcp.go                                      tcp: flows that send when ACKs arrive
//	                   forwarding.go balance.go conga.go           paths: load balancing and failures
//	                   dependencies.go                             deliveries: flows that wait for others
//	domains            domain.go layout.go
//	the run            network.go workload.go pacer.go run.go results.go
//
// # Hooks
//
// Parts are called at these points only (TestHooksAreListed):
//
//	called by                        hooks
//	domain.runWindow                 paths.choosePorts, pfc.takeToggles, buffers.runNode
//	domain.runQueued                 buffers.holdAll, classes.runQueues
//	domain.send                      buffers.hold
//	port.passes                      buffers.passes, classes.servedInTurn
//	domain.change                    paths.changeRate, pfc.changePauses
//	domain.transmit                  deliveries.foresee
//	domain.runNIC                    classes.chooseClasses, recovery.nextTimer, recovery.timeout
//	domain.runNICs                   recovery.nextTimer, recovery.timeout
//	domain.sendNext                  classes.pickClass, recovery.onSend, tcp.sent,
//	domain.sendNext                  recovery.startTimer, paths.label, classes.sent
//	port.nextAck                     pfc.paused
//	domain.receiveAll                tcp.receiveClocked, tcp.sendDelayed
//	domain.receiveData               recovery.receiveInOrder
//	domain.receive                   recovery.receiveAck, tcp.receiveClockedAck
//	ackClocking.receiveClocked       recovery.receiveAny
//	ackClocking.receiveClockedAck    recovery.ended, recovery.returned
//	balancing.congaLeaf              paths.congaEnds
//	balancing.leastCongested         paths.congaEnds
//	balancing.measure                paths.congaEnds
//	classQueues.chooseClasses        pfc.paused
//	classQueues.pickClass            pfc.paused
//	classQueues.serveClass           pfc.leaves, pfc.paused
//	classQueues.serveClasses         pfc.paused
//	deliveryWatch.foresee            paths.isLost
//	forwarding.choosePorts           recovery.receiveInOrder, tcp.receiveClocked
//	pausing.signal                   paths.kindAt
//	pausing.takeIn                   buffers.serveActive
//	pausing.watch                    buffers.drop, buffers.hold
//	retransmission.receiveAck        paths.repath
//	sharedBuffers.holdAll            pfc.pauserOf
//	sharedBuffers.runMerged          pfc.settleLeaving, pfc.takeIn
//	sharedBuffers.serveActive        classes.serveClasses
//
// Between epochs Network.steps calls recovery.settle, and pacer.advance the frontier of dependencies.go.
//
// # Order of events
//
// Time is in ps. Items that reach a port in the same ps are ordered by the link on which they arrive. Flows
// that start in the same ps are ordered by row. At each time, a host first receives all ACKs, then starts
// flows, then processes timers, and then sends. When a switch starts a service, it considers ACKs that arrive
// at exactly this time, but does not count data that arrives then as left behind. At a switch with a limited
// buffer, arrivals precede services. This is the order of the link kernel: a network with one queue yields
// its results bit by bit. No other events can coincide, because an item that leaves a port reaches the next
// one later.
//
// # Domains, steps and windows
//
// The nodes are divided into domains (package partition), and time into steps. A step is as long as the
// shortest time that a packet takes from one domain to another. In a step workers simulate the domains in any
// order or at the same time (package workers). Other domains read the packets that leave a domain in the next
// step. A domain divides a step into windows. A window is as long as the shortest time from one of its ports
// to the next, so an item that reaches a port in a window left another port before the window began. Each
// port processes its arrivals of a window alone, in one pass, without a heap of events (package calendar).
//
//	feed ──► flows ──► step: domain 0 │ domain 1 │ … ──► results ──► finished
//	(goroutine)               windows │ windows  │       (goroutine)
//
// Memory grows with the number of flows in the network and packets in its queues, not with the workload.
//
// # The way of a packet
//
//   - A flow starts: pacer.start passes it to its source's domain. domain.admit lays out its path, and
//     domain.receive adds it to its NIC at its start. If it waits for others, the frontier starts it
//     (dependencies.go).
//   - Its next hop is chosen once, in domain.admit (hop.to), which domain.transmit and domain.runPorts read.
//     Where paths change (Network.Forward), forwarding.choosePort chooses again when a packet has arrived. It
//     also removes what was lost on the link.
//   - A packet enters a switch's port in domain.runPorts. If a limited buffer may drop it,
//     sharedBuffers.runMerged decides.
//   - It leaves a switch's port in domain.runPorts if it need not wait for others, or else in domain.serve
//     (classQueues.serveClass with classes). It leaves a NIC in domain.sendNext.
//   - Its last packet is delivered in domain.receiveData (with recovery: Network counts it between epochs, in
//     recovery.settle). The flow's slot is free when its source has received the last ACK (domain.free).
package network
