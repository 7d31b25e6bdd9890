// SPDX-License-Identifier: MIT OR Apache-2.0
//! A recording as a Perfetto trace, for ui.perfetto.dev. Each thread has a lane with what it did and what it waited for in the kernel. Each processor
//! has a lane from the kernel's own events. Arrows are hand-offs from thread to thread. Other kernel events, and counters, have tracks of their own.
//!
//! The messages are the few of Perfetto's published protos (protos/perfetto/trace) that this needs, with their field numbers.

use std::collections::BTreeMap;
use std::io::{self, Write};

use prost::Message;

use super::lanes::{Edge, Lane, Lanes, Span, SpanKind};
use super::told::{self, Told, What};
use crate::file::Recording;
use crate::kernel::counters;
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
    #[prost(uint64, optional, tag = "5")]
    parent_uuid: Option<u64>,
    #[prost(message, optional, tag = "8")]
    counter: Option<CounterDescriptor>,
}

#[derive(Clone, PartialEq, Message)]
struct CounterDescriptor {
    #[prost(string, optional, tag = "6")]
    unit_name: Option<String>,
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
    /// 1 begins a span, 2 ends one, 3 is a moment, 4 is what a counter says.
    #[prost(int32, optional, tag = "9")]
    r#type: Option<i32>,
    #[prost(uint64, optional, tag = "10")]
    name_iid: Option<u64>,
    #[prost(uint64, optional, tag = "11")]
    track_uuid: Option<u64>,
    #[prost(string, repeated, tag = "22")]
    categories: Vec<String>,
    #[prost(string, optional, tag = "23")]
    name: Option<String>,
    #[prost(double, optional, tag = "44")]
    double_counter_value: Option<f64>,
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
    #[prost(string, optional, tag = "6")]
    string_value: Option<String>,
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
    #[prost(message, optional, tag = "491")]
    sched_migrate_task: Option<SchedMigrateTask>,
}

#[derive(Clone, PartialEq, Message)]
struct SchedMigrateTask {
    #[prost(string, optional, tag = "1")]
    comm: Option<String>,
    #[prost(int32, optional, tag = "2")]
    pid: Option<i32>,
    #[prost(int32, optional, tag = "3")]
    prio: Option<i32>,
    #[prost(int32, optional, tag = "4")]
    orig_cpu: Option<i32>,
    #[prost(int32, optional, tag = "5")]
    dest_cpu: Option<i32>,
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
/// Arguments that spans have: packets, and who held the lock that was waited for.
const PACKETS: u64 = 1;
const HELD_BY: u64 = 2;
/// The first number of tracks: of threads, of what they wait for in the kernel, of processors, of counters.
const THREADS: u64 = 100;
const WAITS: u64 = 1 << 33;
const PROCESSORS: u64 = 2 << 33;
const COUNTERS: u64 = 3 << 33;
/// The track of the process.
const PROCESS: u64 = 1;
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

    fn track(&mut self, track: TrackDescriptor) -> io::Result<()> {
        self.write(&TracePacket { track_descriptor: Some(track), ..TracePacket::default() })
    }

    fn event(&mut self, at_ns: u64, event: TrackEvent) -> io::Result<()> {
        self.write(&TracePacket {
            timestamp: Some(at_ns),
            trusted_packet_sequence_id: Some(SEQUENCE),
            sequence_flags: Some(NEEDS),
            track_event: Some(event),
            ..TracePacket::default()
        })
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
    packets.track(TrackDescriptor {
        uuid: Some(PROCESS),
        process: Some(process),
        ..TrackDescriptor::default()
    })?;
    for lane in &lanes.lanes {
        write_lane(&mut packets, &lanes, lane, pid)?;
    }
    write_kernel(&mut packets, recording)?;
    write_besides(&mut packets, recording, &lanes)?;
    write_counters(&mut packets, recording, &lanes)?;
    packets.out.flush()
}

fn interned(lanes: &Lanes) -> TracePacket {
    let entry = |(i, name): (usize, &str)| Interned { iid: Some(i as u64 + 1), name: Some(name.to_owned()) };
    let data = InternedData {
        event_categories: SpanKind::ALL.iter().map(|k| k.name()).enumerate().map(entry).collect(),
        event_names: lanes.names.iter().map(String::as_str).enumerate().map(entry).collect(),
        debug_annotation_names: [(PACKETS, "packets"), (HELD_BY, "held by")]
            .map(|(iid, name)| Interned { iid: Some(iid), name: Some(name.into()) })
            .to_vec(),
    };
    TracePacket {
        trusted_packet_sequence_id: Some(SEQUENCE),
        sequence_flags: Some(CLEARED),
        interned_data: Some(data),
        ..TracePacket::default()
    }
}

fn write_lane<W: Write>(packets: &mut Packets<W>, lanes: &Lanes, lane: &Lane, pid: i32) -> io::Result<()> {
    let uuid = THREADS + u64::from(lane.thread);
    let thread =
        ThreadDescriptor { pid: Some(pid), tid: Some(lane.id as i32), thread_name: Some(lane.name.clone()) };
    packets.track(TrackDescriptor {
        uuid: Some(uuid),
        thread: Some(thread),
        ..TrackDescriptor::default()
    })?;
    let mut done = Ok(());
    lane.walk(|edge, at_ns, span| {
        if done.is_ok() {
            done = packets.event(at_ns, track_event(lanes, edge, span, uuid));
        }
    });
    done
}

const BEGIN: i32 = 1;
const END: i32 = 2;
const MOMENT: i32 = 3;
const COUNTER: i32 = 4;

fn track_event(lanes: &Lanes, edge: Edge, span: &Span, uuid: u64) -> TrackEvent {
    let mut event = TrackEvent { track_uuid: Some(uuid), ..TrackEvent::default() };
    event.r#type = Some(match edge {
        Edge::Begin => BEGIN,
        Edge::End => END,
        Edge::Moment => MOMENT,
    });
    if edge != Edge::End {
        event.name_iid = Some(span.name as u64 + 1);
        event.category_iids = vec![span.kind as u64 + 1];
        let packets = span.packets.map(packets_argument);
        let owner = span.owner.map(|owner| DebugAnnotation {
            name_iid: Some(HELD_BY),
            string_value: Some(lanes.name_of(owner)),
            ..DebugAnnotation::default()
        });
        event.debug_annotations = packets.into_iter().chain(owner).collect();
        event.flow_ids = span.gives.into_iter().collect();
        event.terminating_flow_ids = span.takes.into_iter().collect();
    }
    event
}

fn packets_argument(packets: u32) -> DebugAnnotation {
    DebugAnnotation {
        name_iid: Some(PACKETS),
        uint_value: Some(packets.into()),
        ..DebugAnnotation::default()
    }
}

/// What Perfetto has no word for: what the router's threads wait for in the kernel, polls of devices and failures of XDP programs.
fn write_besides<W: Write>(packets: &mut Packets<W>, recording: &Recording, lanes: &Lanes) -> io::Result<()> {
    let events = told::sorted(&recording.kernel);
    let mine = |id: u32| lanes.of_id(id).is_some();
    for (id, waits) in told::waits(&events, mine) {
        let Some(lane) = lanes.of_id(id) else { continue };
        let (uuid, parent) = (WAITS + u64::from(lane.thread), THREADS + u64::from(lane.thread));
        packets.track(TrackDescriptor {
            uuid: Some(uuid),
            name: Some("waits in the kernel".into()),
            parent_uuid: Some(parent),
            ..TrackDescriptor::default()
        })?;
        write_told(packets, uuid, "kernel wait", &waits)?;
    }
    for (cpu, moments) in told::besides(&events) {
        let uuid = PROCESSORS + u64::from(cpu);
        packets.track(TrackDescriptor {
            uuid: Some(uuid),
            name: Some(format!("CPU {cpu}: devices")),
            ..TrackDescriptor::default()
        })?;
        write_told(packets, uuid, "kernel", &moments)?;
    }
    Ok(())
}

/// Spans and moments of a track, as brackets.
fn write_told<W: Write>(
    packets: &mut Packets<W>,
    uuid: u64,
    category: &str,
    told: &[Told],
) -> io::Result<()> {
    let mut edges: Vec<(u64, std::cmp::Reverse<u64>, &Told)> =
        told.iter().map(|t| (t.from_ns, std::cmp::Reverse(t.to_ns), t)).collect();
    edges.sort_by_key(|(from, to, _)| (*from, *to));
    let mut open: Vec<u64> = Vec::new();
    let event = |r#type| TrackEvent { track_uuid: Some(uuid), r#type: Some(r#type), ..TrackEvent::default() };
    for (from_ns, _, told) in edges {
        while let Some(to) = open.pop_if(|to| *to <= from_ns) {
            packets.event(to, event(END))?;
        }
        let r#type = if told.to_ns > from_ns { BEGIN } else { MOMENT };
        let argument = match told.what {
            What::Moment { packets: Some(packets), .. } => vec![packets_argument(packets)],
            _ => Vec::new(),
        };
        packets.event(
            from_ns,
            TrackEvent {
                name: Some(told.name.clone()),
                categories: vec![category.to_owned()],
                debug_annotations: argument,
                ..event(r#type)
            },
        )?;
        if r#type == BEGIN {
            open.push(open.last().map_or(told.to_ns, |outer| told.to_ns.min(*outer)));
        }
    }
    open.into_iter().rev().try_for_each(|to| packets.event(to, event(END)))
}

fn write_counters<W: Write>(
    packets: &mut Packets<W>,
    recording: &Recording,
    lanes: &Lanes,
) -> io::Result<()> {
    for (track, ((thread, counter), rates)) in (COUNTERS..).zip(counters::rates(&recording.readings)) {
        let Some(counter) = recording.header.counters.get(counter as usize) else { continue };
        let lane = lanes.of_id(thread);
        let of = lane.map_or(String::new(), |lane| format!(" of {}", lane.name));
        packets.track(TrackDescriptor {
            uuid: Some(track),
            name: Some(format!("{}{of}", counter.name)),
            parent_uuid: Some(PROCESS),
            counter: Some(CounterDescriptor { unit_name: Some(format!("{}/s", counter.unit())) }),
            ..TrackDescriptor::default()
        })?;
        for rate in rates {
            packets.event(
                rate.to_ns,
                TrackEvent {
                    track_uuid: Some(track),
                    r#type: Some(COUNTER),
                    double_counter_value: Some(rate.per_s),
                    ..TrackEvent::default()
                },
            )?;
        }
    }
    Ok(())
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
        KernelKind::Migrate => {
            out.sched_migrate_task = Some(SchedMigrateTask {
                comm: named(event.a),
                pid: Some(event.a as i32),
                prio: Some(120),
                orig_cpu: Some(event.b as i32),
                dest_cpu: Some(event.c as i32),
            });
        }
        // Shown on tracks of their own.
        KernelKind::NapiPoll
        | KernelKind::XdpException
        | KernelKind::ContentionBegin
        | KernelKind::ContentionEnd
        | KernelKind::FutexBegin
        | KernelKind::FutexEnd => return None,
    }
    Some(out)
}
