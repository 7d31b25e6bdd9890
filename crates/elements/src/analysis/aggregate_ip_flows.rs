// SPDX-License-Identifier: MIT OR Apache-2.0
//! # AggregateIPFlows
//!
//! `AggregateIPFlows([keywords TCP_TIMEOUT, TCP_DONE_TIMEOUT, UDP_TIMEOUT, FRAGMENT_TIMEOUT, REAP, ICMP, FRAGMENTS, TRACEINFO, SOURCE,
//! CAPACITY])`
//!
//! Numbers TCP and UDP flows: it sets each packet's aggregate annotation to its flow's number, and its paint to the direction.
//!
//! **Ports:** 1 input, 1 to 2 outputs; the first is agnostic, the second one push.
//!
//! **Arguments** (times are those of the packets' timestamps)
//! * `TCP_TIMEOUT` seconds without a packet after which a TCP flow has ended, default 24 hours.
//! * `TCP_DONE_TIMEOUT` the same for a flow with a FIN from both ends or a RST, default 30 s.
//! * `UDP_TIMEOUT` the same for UDP, default 60 s.
//! * `FRAGMENT_TIMEOUT` how long fragments are held, so that the one with the ports can come, default 30 s.
//! * `REAP` how often to look for flows that have ended, default 20 minutes.
//! * `ICMP` boolean, default false: an ICMP error gets the number of the flow of the packet that it quotes.
//! * `FRAGMENTS` boolean, default true where packets are pushed, and else false: later fragments get their packet's flow, too.
//! * `TRACEINFO` a file, or `-` for standard output, to describe each flow in, in XML.
//! * `SOURCE` an element whose handlers `filename` and `packet_filepos` are noted there.
//! * `CAPACITY` flows to know at most, 1 to 16777216, default 1048576.
//!
//! Flows are numbered from 1. The packets of a flow's first direction get paint 0, the others paint 1; an ICMP error gets 2 more than the
//! packet that it quotes. After its end a flow gets another number, and so does a TCP flow that begins anew.
//!
//! While a fragment is held, the packets between its two hosts wait behind it, up to 4096 packets in all. The handler `clear` sends
//! them on when no more packets come. Packets of other protocols, packets without ports, and fragments whose first one did
//! not come leave by output 1.
//!
//! **Metadata read:** timestamp, network header position. **Set:** aggregate, paint; the timestamp where there is none.
//!
//! **Drops:** `not-matched`, what would leave by output 1 if that is not connected.
//!
//! **Cores:** one worker at a time uses it; where several do, a lock stands before it.
//!
//! **Handlers**
//! * `clear` write: ends all flows, and sends held packets on.
//!
//! ```click
//! FromIPSummaryDump(/dev/null, STOP true) -> af :: AggregateIPFlows -> AggregateCounter -> Discard;
//! DriverManager(wait, write af.clear);
//! ```
//!
//! See also: AggregateIP, AggregateCounter, DriverManager

use std::sync::Arc;
use std::time::Duration;

use element::args::Args;
use element::clock::SECOND;
use element::{
    Class, Cx, Element, HotSwap, OpenCx, PacketHolder, Provide, Provided, Reason, Rehearsal, Rehearsed,
    Tasks, handlers, swap,
};
use packet::{Batch, Packet, anno};

use super::flows::{Flows, Headers, Timeouts};
use super::notices::Notices;
use super::trace_info::TraceInfo;
use crate::io::files::Output;

/// The descriptor.
pub const CLASS: Class = Class::new("AggregateIPFlows", "1/1-2", || Box::new(AggregateIpFlows::default()))
    .processing("a/ah")
    .serial("flows are numbered in the order in which they begin")
    .handlers(handlers! { AggregateIpFlows:
        write "clear" => |element, cx| element.clear(cx);
    })
    .hot_swap::<AggregateIpFlows>()
    .rehearsal::<AggregateIpFlows>()
    .packet_holder::<AggregateIpFlows>()
    .provide::<AggregateIpFlows>()
    .file(file!());

const CAPACITY: usize = 1 << 20;
const CAPACITY_MOST: usize = 1 << 24;

#[derive(Default)]
struct AggregateIpFlows {
    flows: Flows,
    icmp: bool,
    fragments: bool,
    reap: u64,
    /// When flows that have ended are looked for next, in seconds.
    reap_at: u64,
    trace_path: Option<String>,
    source: Option<String>,
    trace: Option<TraceInfo>,
    notices: Arc<Notices>,
}

fn seconds(args: &mut Args<'_>, name: &'static str, default: u64) -> u64 {
    args.keyword(name, Duration::from_secs(default)).as_secs()
}

impl AggregateIpFlows {
    /// Annotates a packet; what is to leave goes to the batches of the two outputs.
    fn handle(&mut self, cx: &mut Cx<'_>, mut packet: Packet, [out, others]: &mut [Batch; 2]) {
        if packet.timestamp_ns() == 0 {
            let warning = format!("{}: warning: packet received without timestamp", cx.name());
            cx.print_once(&warning);
            packet.set_timestamp_ns(cx.wall());
        }
        let Some(headers) = packet.network().and_then(|ip| Headers::read(ip, self.icmp)) else {
            return others.push(packet);
        };
        let now = packet.timestamp_ns() / SECOND;
        let (trace, notices) = (&mut self.trace, &self.notices);
        let numbered = self.flows.find(&headers, packet.timestamp_ns(), &mut |ended| {
            notices.end(ended.number);
            if let Some(trace) = trace {
                trace.flow(ended);
            }
        });
        if let Some((flow, begun)) = numbered {
            if begun && let Some(trace) = &self.trace {
                self.flows.set_position(&headers, trace.position(cx));
            }
            packet.set_anno_u32(anno::AGGREGATE, flow.number);
            packet.set_paint(flow.paint);
        } else {
            packet.set_anno_u32(anno::AGGREGATE, 0);
            packet.set_paint(headers.paint());
        }
        let holds = self.flows.holds(headers.hosts());
        if (self.fragments && headers.is_fragment()) || holds {
            self.flows.hold(headers, packet);
            self.flows.release(headers.hosts(), now, out, others);
        } else if numbered.is_some() {
            self.flows.passed(&headers, &packet);
            out.push(packet);
        } else {
            others.push(packet);
        }
        if now >= self.reap_at {
            if self.reap_at > 0 {
                self.end(now, out, others);
            }
            self.reap_at = now.saturating_add(self.reap);
        }
    }

    /// Ends the flows that are over at `now`.
    fn end(&mut self, now: u64, out: &mut Batch, others: &mut Batch) {
        let (trace, notices) = (&mut self.trace, &self.notices);
        self.flows.reap(now, out, others, &mut |ended| {
            notices.end(ended.number);
            if let Some(trace) = trace {
                trace.flow(ended);
            }
        });
    }

    fn handle_all(&mut self, cx: &mut Cx<'_>, mut batch: Batch) -> [Batch; 2] {
        if let Some(trace) = &mut self.trace {
            trace.begin(cx);
        }
        let mut parts = [Batch::new(), Batch::new()];
        for packet in batch.drain(..) {
            self.handle(cx, packet, &mut parts);
        }
        if let Some(Err(why)) = self.trace.as_mut().map(TraceInfo::wrote) {
            cx.print_once(&format!("{}: {why}", cx.name()));
        }
        parts
    }
}

impl AggregateIpFlows {
    fn clear(&mut self, cx: &mut Cx<'_>) {
        let (mut out, mut others) = (Batch::new(), Batch::new());
        self.end(u64::MAX, &mut out, &mut others);
        if !out.is_empty() {
            cx.push(0, out);
        }
        cx.push_or_drop(1, others, Reason::NotMatched);
    }
}

impl Element for AggregateIpFlows {
    fn configure(&mut self, args: &mut Args<'_>) {
        let timeouts = Timeouts {
            tcp: seconds(args, "TCP_TIMEOUT", 24 * 60 * 60),
            tcp_done: seconds(args, "TCP_DONE_TIMEOUT", 30),
            udp: seconds(args, "UDP_TIMEOUT", 60),
            fragment: seconds(args, "FRAGMENT_TIMEOUT", 30),
        };
        self.reap = seconds(args, "REAP", 20 * 60).max(1);
        self.icmp = args.keyword("ICMP", false);
        let pulled = args.input_is_pull(0);
        self.fragments = args.keyword("FRAGMENTS", !pulled);
        if self.fragments && pulled {
            args.error("FRAGMENTS true needs packets that are pushed: put an Unqueue before this element");
        }
        self.trace_path = args.keyword_opt("TRACEINFO");
        self.source = args.keyword_opt("SOURCE");
        let capacity = args.keyword_in("CAPACITY", CAPACITY, 1..=CAPACITY_MOST);
        self.flows = Flows::new(timeouts, capacity);
    }

    fn open(&mut self, cx: &mut OpenCx<'_>) -> Result<Tasks, String> {
        if let Some(path) = &self.trace_path
            && !cx.inherits()
        {
            let output = if cx.is_dry() { None } else { Some(Output::create(path, false)?) };
            self.trace = output.map(|output| TraceInfo::new(output, path != "-", self.source.clone()));
        }
        Ok(Tasks::None)
    }

    fn push(&mut self, cx: &mut Cx<'_>, _: usize, batch: Batch) {
        let [out, others] = self.handle_all(cx, batch);
        cx.push(0, out);
        cx.push_or_drop(1, others, Reason::NotMatched);
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: Batch) -> Batch {
        let [out, others] = self.handle_all(cx, batch);
        cx.push_or_drop(1, others, Reason::NotMatched);
        out
    }

    fn finish(&mut self, cx: &mut Cx<'_>) {
        let Some(mut trace) = self.trace.take() else { return };
        trace.begin(cx);
        self.flows.all(&mut |flow| trace.flow(flow));
        if let Err(why) = trace.end() {
            cx.print(&format!("{}: {why}", cx.name()));
        }
    }
}

impl Provide for AggregateIpFlows {
    fn provide(&self) -> Option<Provided> {
        Some(self.notices.clone())
    }
}

impl PacketHolder for AggregateIpFlows {
    fn held(&self) -> usize {
        self.flows.held()
    }
}

impl Rehearsal for AggregateIpFlows {
    fn rehearse(&mut self, _: &mut Cx<'_>, _: usize, packet: Packet) -> Rehearsed {
        Rehearsed::passes(packet)
    }
}

impl HotSwap for AggregateIpFlows {
    fn take_state(&mut self, _: &mut Cx<'_>, old: &mut dyn Element) -> bool {
        let Some(old) = swap::same::<AggregateIpFlows>(old) else { return false };
        self.flows.follow(&mut old.flows);
        self.reap_at = old.reap_at;
        self.trace = self.trace.take().or(old.trace.take());
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::testing::Temp;
    use crate::testing::{Rig, Run};

    /// A packet at `time`, with what its flow's ends are, and its payload.
    #[derive(Clone)]
    struct Sent {
        time: u64,
        hosts: (u8, u8),
        protocol: u8,
        /// Identification, and offset with the more-fragments bit.
        fragment: (u8, u16),
        payload: Vec<u8>,
    }

    fn ports(source: u8, destination: u8) -> Vec<u8> {
        vec![0, source, 0, destination, 0, 8, 0, 0]
    }

    fn udp(time: u64, hosts: (u8, u8), (source, destination): (u8, u8)) -> Sent {
        Sent { time, hosts, protocol: 17, fragment: (0, 0), payload: ports(source, destination) }
    }

    fn tcp(time: u64, hosts: (u8, u8), flags: u8) -> Sent {
        let source = hosts.0;
        let mut payload = vec![0, source, 0, hosts.1, 0, 0, 0, 0, 0, 0, 0, 0, 0x50, flags];
        payload.extend([0; 6]);
        Sent { time, hosts, protocol: 6, fragment: (0, 0), payload }
    }

    fn ip(sent: &Sent) -> Vec<u8> {
        let [high, low] = sent.fragment.1.to_be_bytes();
        let mut bytes = vec![
            0x45,
            0,
            0,
            20 + sent.payload.len() as u8,
            0,
            sent.fragment.0,
            high,
            low,
            64,
            sent.protocol,
            0,
            0,
        ];
        bytes.extend([10, 0, 0, sent.hosts.0, 10, 0, 0, sent.hosts.1]);
        bytes.extend(&sent.payload);
        bytes
    }

    fn packets(all: &[Sent]) -> Vec<Packet> {
        let made = |sent: &Sent| {
            let mut packet = Packet::copy_of(&ip(sent)).unwrap();
            packet.set_network(0, 20);
            packet.set_timestamp_ns(sent.time * SECOND);
            packet
        };
        all.iter().map(made).collect()
    }

    fn numbers(run: &Run, sink: &str) -> Vec<(u32, u8)> {
        run.out(sink).iter().map(|p| (p.anno_u32(anno::AGGREGATE), p.paint())).collect()
    }

    fn check(args: &str, all: &[Sent], want: &[(u32, u8)], others: usize) {
        for burst in [1, 32] {
            let rig = Rig::new(&format!("AggregateIPFlows({args})")).outputs(2).burst(burst);
            let run = rig.packets(packets(all)).run();
            assert_eq!((numbers(&run, "o0"), run.out("o1").len()), (want.to_vec(), others), "{args}");
        }
    }

    #[test]
    fn flows_have_numbers_and_directions() {
        let all = [
            udp(1, (1, 2), (5, 6)),
            udp(1, (2, 1), (6, 5)),
            udp(1, (2, 1), (7, 5)),
            udp(1, (1, 2), (5, 7)),
            tcp(1, (1, 2), 2),
            udp(2, (1, 1), (9, 8)),
            udp(2, (1, 1), (8, 9)),
            Sent { protocol: 1, ..udp(2, (1, 2), (5, 6)) },
            Sent { payload: vec![0, 5], ..udp(2, (1, 2), (5, 6)) },
        ];
        check("", &all, &[(1, 0), (1, 1), (2, 0), (2, 1), (3, 0), (4, 0), (4, 1)], 2);
    }

    #[test]
    fn flows_end() {
        let again =
            |gap: u64| [udp(1, (1, 2), (5, 6)), udp(1 + gap, (2, 1), (6, 5)), udp(2 + gap, (2, 1), (6, 5))];
        check("", &again(60), &[(1, 0), (1, 1), (1, 1)], 0);
        check("", &again(61), &[(1, 0), (2, 0), (2, 0)], 0);
        check("UDP_TIMEOUT 10, REAP 5", &again(11), &[(1, 0), (2, 0), (2, 0)], 0);
        // A FIN from both ends, or a RST, and a SYN begins another flow.
        let closed =
            [tcp(1, (1, 2), 2), tcp(1, (1, 2), 1), tcp(1, (2, 1), 1), tcp(2, (1, 2), 16), tcp(3, (2, 1), 2)];
        check("", &closed, &[(1, 0), (1, 0), (1, 1), (1, 0), (2, 0)], 0);
        check(
            "",
            &[tcp(1, (1, 2), 4), tcp(31, (1, 2), 16), tcp(62, (1, 2), 16)],
            &[(1, 0), (1, 0), (2, 0)],
            0,
        );
        check("", &[tcp(1, (1, 2), 16), tcp(80000, (1, 2), 16)], &[(1, 0), (1, 0)], 0);
        check(
            "CAPACITY 1",
            &[udp(1, (1, 2), (5, 6)), udp(1, (1, 2), (5, 7)), udp(1, (1, 2), (5, 6))],
            &[(1, 0), (1, 0)],
            1,
        );
    }

    #[test]
    fn fragments_wait_for_their_first_one() {
        let part = |time, id, offset| Sent { fragment: (id, offset), ..udp(time, (1, 2), (5, 6)) };
        let (first, later) = (part(1, 9, 0x2000), part(1, 9, 1));
        let whole = udp(2, (2, 1), (6, 5));
        check("", &[first.clone(), later.clone(), whole.clone()], &[], 0);
        check("", &[later.clone(), first.clone(), whole.clone()], &[], 0);
        check("FRAGMENTS false", &[first.clone(), later.clone()], &[(1, 0)], 1);
        // Its time is over: those that found their flow go, the others leave by the second output.
        let late = part(40, 7, 0x2000);
        check("", &[later.clone(), first.clone(), late.clone()], &[(1, 0), (1, 0)], 0);
        check("", &[part(1, 8, 1), late], &[], 1);
        let mut run = Rig::new("AggregateIPFlows").outputs(2).packets(packets(&[later, first, whole])).run();
        run.write("e.clear", "").unwrap();
        let run = run.again();
        assert_eq!(numbers(&run, "o0"), [(1, 0), (1, 0), (1, 1)]);
    }

    #[test]
    fn errors_belong_to_the_flow_that_they_quote() {
        let flow = udp(1, (1, 2), (5, 6));
        let mut error = vec![3, 1, 0, 0, 0, 0, 0, 0];
        error.extend(ip(&flow));
        let error = Sent { payload: error, ..Sent { protocol: 1, ..udp(1, (9, 1), (0, 0)) } };
        let answer = Sent {
            payload: [&[3, 1, 0, 0, 0, 0, 0, 0][..], &ip(&udp(1, (2, 1), (6, 5)))].concat(),
            ..error.clone()
        };
        check("ICMP true", &[flow.clone(), error.clone(), answer], &[(1, 0), (1, 2), (1, 3)], 0);
        check("", &[flow, error], &[(1, 0)], 1);
    }

    #[test]
    fn flows_are_described() {
        let temp = Temp::new();
        let path = temp.path("flows");
        let text = format!(
            "i :: TestIn -> e :: AggregateIPFlows(TRACEINFO \"{path}\", SOURCE s) -> o0 :: TestOut;
            s :: Script(TYPE PASSIVE, export filename trace.pcap, export packet_filepos 24);"
        );
        let all =
            [udp(1, (1, 2), (5, 6)), udp(2, (2, 1), (6, 5)), tcp(3, (1, 2), 2), udp(90, (1, 2), (5, 6))];
        drop(Rig::text(&text).packets(packets(&all)).run());
        let content = std::fs::read_to_string(path).unwrap();
        let flow = |n: u32, ports: &str, begin: u32, duration: u32, packets: (u32, u32)| {
            format!(
                "<flow aggregate='{n}' src='10.0.0.1' {ports} begin='{begin}.000000' duration='{duration}.000000' filepos='24'>\n  \
             <stream dir='0' packets='{}' /><stream dir='1' packets='{}' />\n</flow>\n",
                packets.0, packets.1
            )
        };
        let want = [
            "<?xml version='1.0' standalone='yes'?>\n<trace file='trace.pcap'>\n".to_owned(),
            flow(1, "sport='5' dst='10.0.0.2' dport='6'", 1, 1, (1, 1)),
            flow(2, "sport='1' dst='10.0.0.2' dport='2'", 3, 0, (1, 0)),
            flow(3, "sport='5' dst='10.0.0.2' dport='6'", 90, 0, (1, 0)),
            "</trace>\n".to_owned(),
        ];
        assert_eq!(content, want.concat());
    }

    #[test]
    fn packets_without_time_get_one() {
        let mut packet = packets(&[udp(0, (1, 2), (5, 6))]).remove(0);
        packet.set_timestamp_ns(0);
        let run = Rig::new("AggregateIPFlows").packets(vec![packet]).run();
        assert_eq!(run.printed(), "e: warning: packet received without timestamp\n");
        assert_eq!(run.out("o0")[0].timestamp_ns(), engine::clock::SIMULATION_EPOCH);
    }

    #[test]
    fn arguments_are_checked() {
        let text = "Idle -> Queue -> e :: AggregateIPFlows(FRAGMENTS true) -> Unqueue -> Discard;";
        let want = "e: FRAGMENTS true needs packets that are pushed: put an Unqueue before this element";
        assert_eq!(Rig::text(text).errors(), [want]);
        let want = "e: CAPACITY must lie between 1 and 16777216, not 0";
        assert_eq!(Rig::new("AggregateIPFlows(CAPACITY 0)").errors(), [want]);
    }
}
