// SPDX-License-Identifier: MIT OR Apache-2.0
//! A recording as a Perfetto trace: a lane for each thread with what it did, a lane for each processor from the kernel's own events, and arrows for
//! hand-offs from thread to thread. Opens in ui.perfetto.dev.
//!
//! The messages are the few of Perfetto's published protos (protos/perfetto/trace) that this needs, with their field numbers.

use std::collections::BTreeMap;
use std::io::{self, Write};

use prost::Message;

use super::lanes::{Edge, Lane, Lanes, Span, SpanKind};
use crate::file::Recording;
use crate::kernel::event::{KernelEvent, KernelKind};

#[derive(Clone, PartialEq, Message)]
struct TracePacket {
    #[prost(uint64, optional, tag = "8")]
    timestamp: Option<u64>,
    #[prost(uint32, optional, tag = "10")]
    trusted_packet_sequence_id: Option<u32>,
    #[prost(uint32, optional, tag = "13")]
    sequence_flags: Option<u32>,
    #[prost(message, optional, tag = "1")]
    ftrace_events: Option<FtraceEventBundle>,
    #[prost(message, optional, tag = "11")]
    track_event: Option<TrackEvent>,
    #[prost(message, optional, tag = "12")]
    interned_data: Option<InternedData>,
    #[prost(message, optional, tag = "60")]
    track_descriptor: Option<TrackDescriptor>,
}

#[derive(Clone, PartialEq, Message)]
struct TrackDescriptor {
    #[prost(uint64, optional, tag = "1")]
    uuid: Option<u64>,
    #[prost(string, optional, tag = "2")]
    name: Option<String>,
    #[prost(message, optional, tag = "3")]
    process: Option<ProcessDescriptor>,
    #[prost(message, optional, tag = "4")]
    thread: Option<ThreadDescriptor>,
}

#[derive(Clone, PartialEq, Message)]
struct ProcessDescriptor {
    #[prost(int32, optional, tag = "1")]
    pid: Option<i32>,
    #[prost(string, optional, tag = "6")]
    process_name: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
struct ThreadDescriptor {
    #[prost(int32, optional, tag = "1")]
    pid: Option<i32>,
    #[prost(int32, optional, tag = "2")]
    tid: Option<i32>,
    #[prost(string, optional, tag = "5")]
    thread_name: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
struct TrackEvent {
    #[prost(uint64, repeated, tag = "3")]
    category_iids: Vec<u64>,
    #[prost(message, repeated, tag = "4")]
    debug_annotations: Vec<DebugAnnotation>,
    /// 1 begins a span, 2 ends one, 3 is a moment.
    #[prost(int32, optional, tag = "9")]
    r#type: Option<i32>,
    #[prost(uint64, optional, tag = "10")]
    name_iid: Option<u64>,
    #[prost(uint64, optional, tag = "11")]
    track_uuid: Option<u64>,
    #[prost(fixed64, repeated, packed = "false", tag = "47")]
    flow_ids: Vec<u64>,
    #[prost(fixed64, repeated, packed = "false", tag = "48")]
    terminating_flow_ids: Vec<u64>,
}

#[derive(Clone, PartialEq, Message)]
struct DebugAnnotation {
    #[prost(uint64, optional, tag = "1")]
    name_iid: Option<u64>,
    #[prost(uint64, optional, tag = "3")]
    uint_value: Option<u64>,
}

#[derive(Clone, PartialEq, Message)]
struct InternedData {
    #[prost(message, repeated, tag = "1")]
    event_categories: Vec<Interned>,
    #[prost(message, repeated, tag = "2")]
    event_names: Vec<Interned>,
    #[prost(message, repeated, tag = "3")]
    debug_annotation_names: Vec<Interned>,
}

#[derive(Clone, PartialEq, Message)]
struct Interned {
    #[prost(uint64, optional, tag = "1")]
    iid: Option<u64>,
    #[prost(string, optional, tag = "2")]
    name: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
struct FtraceEventBundle {
    #[prost(uint32, optional, tag = "1")]
    cpu: Option<u32>,
    #[prost(message, repeated, tag = "2")]
    event: Vec<FtraceEvent>,
}

#[derive(Clone, PartialEq, Message)]
struct FtraceEvent {
    #[prost(uint64, optional, tag = "1")]
    timestamp: Option<u64>,
    #[prost(uint32, optional, tag = "2")]
    pid: Option<u32>,
    #[prost(message, optional, tag = "4")]
    sched_switch: Option<SchedSwitch>,
    #[prost(message, optional, tag = "17")]
    sched_wakeup: Option<SchedWakeup>,
    #[prost(message, optional, tag = "24")]
    softirq_entry: Option<Softirq>,
    #[prost(message, optional, tag = "25")]
    softirq_exit: Option<Softirq>,
    #[prost(message, optional, tag = "36")]
    irq_handler_entry: Option<IrqEntry>,
    #[prost(message, optional, tag = "37")]
    irq_handler_exit: Option<IrqExit>,
}

#[derive(Clone, PartialEq, Message)]
struct SchedSwitch {
    #[prost(string, optional, tag = "1")]
    prev_comm: Option<String>,
    #[prost(int32, optional, tag = "2")]
    prev_pid: Option<i32>,
    #[prost(int32, optional, tag = "3")]
    prev_prio: Option<i32>,
    #[prost(int64, optional, tag = "4")]
    prev_state: Option<i64>,
    #[prost(string, optional, tag = "5")]
    next_comm: Option<String>,
    #[prost(int32, optional, tag = "6")]
    next_pid: Option<i32>,
    #[prost(int32, optional, tag = "7")]
    next_prio: Option<i32>,
}

#[derive(Clone, PartialEq, Message)]
struct SchedWakeup {
    #[prost(string, optional, tag = "1")]
    comm: Option<String>,
    #[prost(int32, optional, tag = "2")]
    pid: Option<i32>,
    #[prost(int32, optional, tag = "3")]
    prio: Option<i32>,
    #[prost(int32, optional, tag = "4")]
    success: Option<i32>,
    #[prost(int32, optional, tag = "5")]
    target_cpu: Option<i32>,
}

#[derive(Clone, PartialEq, Message)]
struct Softirq {
    #[prost(uint32, optional, tag = "1")]
    vec: Option<u32>,
}

#[derive(Clone, PartialEq, Message)]
struct IrqEntry {
    #[prost(int32, optional, tag = "1")]
    irq: Option<i32>,
    #[prost(string, optional, tag = "2")]
    name: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
struct IrqExit {
    #[prost(int32, optional, tag = "1")]
    irq: Option<i32>,
    #[prost(int32, optional, tag = "2")]
    ret: Option<i32>,
}

/// All our packets are one sequence: they share interned names.
const SEQUENCE: u32 = 1;
/// `SEQ_INCREMENTAL_STATE_CLEARED` and `SEQ_NEEDS_INCREMENTAL_STATE`.
const CLEARED: u32 = 1;
const NEEDS: u32 = 2;
/// The only argument that spans have.
const PACKETS: u64 = 1;
/// Kernel events in a packet.
const BUNDLE: usize = 1000;

/// Writes packets: each is field 1 of the message `Trace`.
struct Packets<W> {
    out: W,
    bytes: Vec<u8>,
}

impl<W: Write> Packets<W> {
    fn write(&mut self, packet: &TracePacket) -> io::Result<()> {
        self.bytes.clear();
        prost::encoding::message::encode(1, packet, &mut self.bytes);
        self.out.write_all(&self.bytes)
    }
}

/// Writes a recording.
///
/// # Errors
/// What `out` says.
pub fn write(recording: &Recording, out: impl Write) -> io::Result<()> {
    let lanes = Lanes::new(recording);
    let mut packets = Packets { out, bytes: Vec::new() };
    packets.write(&interned(&lanes))?;
    let pid = recording.header.pid as i32;
    let process = ProcessDescriptor { pid: Some(pid), process_name: Some(recording.header.command.clone()) };
    let track = TrackDescriptor { uuid: Some(1), name: None, process: Some(process), thread: None };
    packets.write(&TracePacket { track_descriptor: Some(track), ..TracePacket::default() })?;
    for lane in &lanes.lanes {
        write_lane(&mut packets, lane, pid)?;
    }
    write_kernel(&mut packets, recording)?;
    packets.out.flush()
}

fn interned(lanes: &Lanes) -> TracePacket {
    let entry = |(i, name): (usize, &str)| Interned { iid: Some(i as u64 + 1), name: Some(name.to_owned()) };
    let data = InternedData {
        event_categories: SpanKind::ALL.iter().map(|k| k.name()).enumerate().map(entry).collect(),
        event_names: lanes.names.iter().map(String::as_str).enumerate().map(entry).collect(),
        debug_annotation_names: vec![Interned { iid: Some(PACKETS), name: Some("packets".into()) }],
    };
    TracePacket {
        trusted_packet_sequence_id: Some(SEQUENCE),
        sequence_flags: Some(CLEARED),
        interned_data: Some(data),
        ..TracePacket::default()
    }
}

fn write_lane<W: Write>(packets: &mut Packets<W>, lane: &Lane, pid: i32) -> io::Result<()> {
    let uuid = 100 + u64::from(lane.thread);
    let thread =
        ThreadDescriptor { pid: Some(pid), tid: Some(lane.id as i32), thread_name: Some(lane.name.clone()) };
    let track = TrackDescriptor { uuid: Some(uuid), name: None, process: None, thread: Some(thread) };
    packets.write(&TracePacket { track_descriptor: Some(track), ..TracePacket::default() })?;
    let mut done = Ok(());
    lane.walk(|edge, at_ns, span| {
        if done.is_ok() {
            done = packets.write(&packet(edge, at_ns, span, uuid));
        }
    });
    done
}

fn packet(edge: Edge, at_ns: u64, span: &Span, uuid: u64) -> TracePacket {
    let mut event = TrackEvent { track_uuid: Some(uuid), ..TrackEvent::default() };
    event.r#type = Some(match edge {
        Edge::Begin => 1,
        Edge::End => 2,
        Edge::Moment => 3,
    });
    if edge != Edge::End {
        event.name_iid = Some(span.name as u64 + 1);
        event.category_iids = vec![span.kind as u64 + 1];
        let argument =
            |packets: u32| DebugAnnotation { name_iid: Some(PACKETS), uint_value: Some(packets.into()) };
        event.debug_annotations = span.packets.map(argument).into_iter().collect();
        event.flow_ids = span.gives.into_iter().collect();
        event.terminating_flow_ids = span.takes.into_iter().collect();
    }
    TracePacket {
        timestamp: Some(at_ns),
        trusted_packet_sequence_id: Some(SEQUENCE),
        sequence_flags: Some(NEEDS),
        track_event: Some(event),
        ..TracePacket::default()
    }
}

fn write_kernel<W: Write>(packets: &mut Packets<W>, recording: &Recording) -> io::Result<()> {
    let mut by_cpu: BTreeMap<u16, Vec<&KernelEvent>> = BTreeMap::new();
    recording.kernel.iter().for_each(|e| by_cpu.entry(e.cpu).or_default().push(e));
    for (cpu, mut events) in by_cpu {
        events.sort_by_key(|e| e.at_ns);
        for part in events.chunks(BUNDLE) {
            let event = part.iter().filter_map(|e| ftrace(recording, e)).collect();
            let bundle = FtraceEventBundle { cpu: Some(cpu.into()), event };
            packets.write(&TracePacket {
                trusted_packet_sequence_id: Some(SEQUENCE + 1),
                ftrace_events: Some(bundle),
                ..TracePacket::default()
            })?;
        }
    }
    Ok(())
}

/// What Perfetto calls the same; `None` for what it has no word for.
fn ftrace(recording: &Recording, event: &KernelEvent) -> Option<FtraceEvent> {
    let mut out =
        FtraceEvent { timestamp: Some(event.at_ns), pid: Some(event.thread), ..FtraceEvent::default() };
    let named = |id: u32| match id {
        0 => Some("swapper".to_owned()),
        _ => recording.commands.get(&id).cloned(),
    };
    match event.kind {
        KernelKind::Switch => {
            out.sched_switch = Some(SchedSwitch {
                prev_comm: named(event.thread),
                prev_pid: Some(event.thread as i32),
                prev_prio: Some(120),
                prev_state: Some(event.a.into()),
                next_comm: named(event.b),
                next_pid: Some(event.b as i32),
                next_prio: Some(120),
            });
        }
        KernelKind::Wakeup => {
            out.sched_wakeup = Some(SchedWakeup {
                comm: named(event.a),
                pid: Some(event.a as i32),
                prio: Some(120),
                success: Some(1),
                target_cpu: Some(event.b as i32),
            });
        }
        KernelKind::SoftirqBegin => out.softirq_entry = Some(Softirq { vec: Some(event.a) }),
        KernelKind::SoftirqEnd => out.softirq_exit = Some(Softirq { vec: Some(event.a) }),
        KernelKind::IrqBegin => {
            out.irq_handler_entry =
                Some(IrqEntry { irq: Some(event.a as i32), name: Some(format!("irq {}", event.a)) });
        }
        KernelKind::IrqEnd => {
            out.irq_handler_exit = Some(IrqExit { irq: Some(event.a as i32), ret: Some(1) });
        }
        _ => return None,
    }
    Some(out)
}
