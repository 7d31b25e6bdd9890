// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the kernel recorded, as spans: interrupts on processors, states of the router's threads, what threads waited for.

use std::collections::{BTreeMap, HashMap};

use crate::awaited::{Awaited, Left, Reasons};
use crate::kernel::event::{KernelEvent, KernelKind, softirq_name};

/// A span of the kernel's, before it has a name's number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Told {
    pub(super) from_ns: u64,
    pub(super) to_ns: u64,
    pub(super) name: String,
    pub(super) what: What,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// On this processor.
    Running(u16),
    Ready,
    /// For this, if that is known.
    Blocked(Option<Awaited>),
    /// It was on a processor that another one left: the kernel does not name who ends.
    Ended,
    /// In a call of `futex`, or for a lock of the kernel.
    Wait,
    Interrupt,
    Softirq,
    /// A moment: with packets, and the thread that it is about, 0 if none.
    Moment {
        packets: Option<u32>,
        thread: u32,
    },
}

/// Events in time.
pub(super) fn sorted(kernel: &[KernelEvent]) -> Vec<&KernelEvent> {
    let mut events: Vec<&KernelEvent> = kernel.iter().collect();
    events.sort_by_key(|e| e.at_ns);
    events
}

/// Interrupts and softirqs of each processor. One without beginning or end lies partly outside of the recording and is left out.
pub(super) fn interrupts(events: &[&KernelEvent]) -> BTreeMap<u16, Vec<Told>> {
    let mut open: BTreeMap<u16, Vec<(KernelKind, u32, u64)>> = BTreeMap::new();
    let mut told: BTreeMap<u16, Vec<Told>> = BTreeMap::new();
    for event in events {
        let (begin, what) = match event.kind {
            KernelKind::IrqBegin | KernelKind::SoftirqBegin => {
                open.entry(event.cpu).or_default().push((event.kind, event.a, event.at_ns));
                continue;
            }
            KernelKind::IrqEnd => (KernelKind::IrqBegin, What::Interrupt),
            KernelKind::SoftirqEnd => (KernelKind::SoftirqBegin, What::Softirq),
            _ => continue,
        };
        let open = open.entry(event.cpu).or_default();
        // A lost end leaves its beginning behind: events that started within it are over, too.
        let Some(at) = open.iter().rposition(|(kind, a, _)| (*kind, *a) == (begin, event.a)) else {
            continue;
        };
        let from_ns = open.drain(at..).next().map_or(event.at_ns, |(_, _, from)| from);
        let name = match what {
            What::Softirq => softirq_name(event.a).to_owned(),
            _ => format!("irq {}", event.a),
        };
        told.entry(event.cpu).or_default().push(Told { from_ns, to_ns: event.at_ns, name, what });
    }
    told
}

/// What threads did, of those that `mine` holds, by the kernel's number.
pub(super) fn states(
    events: &[&KernelEvent],
    mine: impl Fn(u32) -> bool,
    mut reasons: Reasons,
) -> BTreeMap<u32, Vec<Told>> {
    let mut present: HashMap<u32, (u64, What)> = HashMap::new();
    let mut told: BTreeMap<u32, Vec<Told>> = BTreeMap::new();
    let mut enter = |thread: u32, at_ns: u64, what: What| {
        if let Some((from_ns, what)) = present.insert(thread, (at_ns, what)) {
            let name = match what {
                What::Running(cpu) => format!("running on CPU {cpu}"),
                What::Ready => "ready, without a processor".into(),
                What::Ended => "ended".into(),
                What::Blocked(Some(awaited)) => format!("blocked, on {}", awaited.words()),
                _ => "blocked".into(),
            };
            told.entry(thread).or_default().push(Told { from_ns, to_ns: at_ns, name, what });
        }
    };
    let mut blocked: HashMap<u32, bool> = HashMap::new();
    let mut on: HashMap<u16, u32> = HashMap::new();
    for event in events {
        reasons.see(event);
        match event.kind {
            KernelKind::Switch => {
                let before = on.insert(event.cpu, event.b).filter(|t| *t != event.thread && *t != event.b);
                if let Some(thread) = before.filter(|t| mine(*t)) {
                    enter(thread, event.at_ns, What::Ended);
                }
                if mine(event.thread) {
                    let left = Left::of(event.a);
                    blocked.insert(event.thread, left != Left::Ready);
                    let what = match left {
                        Left::Ready => What::Ready,
                        Left::Ended => What::Ended,
                        Left::Blocked { uninterruptibly } => {
                            What::Blocked(Some(reasons.of(event.thread, event.at_ns, uninterruptibly)))
                        }
                    };
                    enter(event.thread, event.at_ns, what);
                }
                if mine(event.b) {
                    blocked.insert(event.b, false);
                    enter(event.b, event.at_ns, What::Running(event.cpu));
                }
            }
            KernelKind::Wakeup if mine(event.a) && blocked.insert(event.a, false) != Some(false) => {
                enter(event.a, event.at_ns, What::Ready);
            }
            _ => {}
        }
    }
    let end = events.last().map_or(0, |e| e.at_ns);
    let open: Vec<u32> = blocked.keys().copied().collect();
    open.into_iter().for_each(|thread| enter(thread, end, What::Blocked(None)));
    told
}

/// What threads waited for in the kernel.
pub(super) fn waits(events: &[&KernelEvent], mine: impl Fn(u32) -> bool) -> BTreeMap<u32, Vec<Told>> {
    let mut open: HashMap<u32, Vec<(KernelKind, u64)>> = HashMap::new();
    let mut told: BTreeMap<u32, Vec<Told>> = BTreeMap::new();
    for event in events.iter().filter(|e| mine(e.thread)) {
        let (begin, name) = match event.kind {
            KernelKind::ContentionBegin | KernelKind::FutexBegin => {
                open.entry(event.thread).or_default().push((event.kind, event.at_ns));
                continue;
            }
            KernelKind::ContentionEnd => (KernelKind::ContentionBegin, "lock of the kernel"),
            KernelKind::FutexEnd => (KernelKind::FutexBegin, "futex"),
            _ => continue,
        };
        let open = open.entry(event.thread).or_default();
        let Some(at) = open.iter().rposition(|(kind, _)| *kind == begin) else { continue };
        let from_ns = open.drain(at..).next().map_or(event.at_ns, |(_, from)| from);
        let wait = Told { from_ns, to_ns: event.at_ns, name: name.into(), what: What::Wait };
        told.entry(event.thread).or_default().push(wait);
    }
    told
}

/// Moments on processors. `name` says what a thread is called.
pub(super) fn moments(events: &[&KernelEvent], name: impl Fn(u32) -> String) -> BTreeMap<u16, Vec<Told>> {
    let mut told: BTreeMap<u16, Vec<Told>> = BTreeMap::new();
    for event in events {
        let at_ns = event.at_ns;
        let (text, packets, thread) = match event.kind {
            KernelKind::Wakeup => (format!("wake {}", name(event.a)), None, event.a),
            KernelKind::Migrate => {
                (format!("{} moves from CPU {} to {}", name(event.a), event.b, event.c), None, event.a)
            }
            KernelKind::NapiPoll => ("NAPI poll".into(), Some(event.a), 0),
            KernelKind::XdpException => (format!("XDP exception, interface {}", event.b), None, 0),
            _ => continue,
        };
        let what = What::Moment { packets, thread };
        told.entry(event.cpu).or_default().push(Told { from_ns: at_ns, to_ns: at_ns, name: text, what });
    }
    told
}

/// Of these, what has to do with devices.
pub(super) fn besides(events: &[&KernelEvent]) -> BTreeMap<u16, Vec<Told>> {
    let is_one =
        |event: &&&KernelEvent| matches!(event.kind, KernelKind::NapiPoll | KernelKind::XdpException);
    let some: Vec<&KernelEvent> = events.iter().filter(is_one).copied().collect();
    moments(&some, |thread| thread.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::Recording;

    fn event(at_ns: u64, kind: KernelKind, thread: u32, a: u32, b: u32) -> KernelEvent {
        KernelEvent { at_ns, kind, cpu: 0, thread, a, b, c: 0 }
    }

    #[test]
    fn threads_run_are_ready_wait_and_end() {
        use KernelKind::{Switch, Wakeup};
        let events = [
            event(10, Switch, 1, 1, 7),
            event(20, Switch, 7, 0, 1),
            event(30, Switch, 1, 1, 7),
            event(40, Switch, 7, 1, 1),
            event(50, Wakeup, 1, 7, 0),
            event(60, Wakeup, 1, 7, 0),
            event(70, Switch, 1, 1, 7),
            // The kernel has forgotten the number of who ended here.
            event(80, Switch, u32::MAX, 0x80, 1),
            event(99, Switch, 1, 1, 2),
        ];
        let told = states(&sorted(&events), |id| id == 7, Reasons::new(&Recording::default()));
        let seen: Vec<_> = told[&7].iter().map(|t| (t.from_ns, t.to_ns, t.what)).collect();
        let running = What::Running(0);
        let expected = [
            (10, 20, running),
            (20, 30, What::Ready),
            (30, 40, running),
            (40, 50, What::Blocked(Some(Awaited::Other))),
            (50, 70, What::Ready),
            (70, 80, running),
            (80, 99, What::Ended),
        ];
        assert_eq!((told.len(), seen.as_slice()), (1, &expected[..]));
    }

    #[test]
    fn interrupts_lie_in_softirqs_and_halves_are_left_out() {
        use KernelKind::{IrqBegin, IrqEnd, SoftirqBegin, SoftirqEnd};
        let events = [
            event(5, IrqEnd, 0, 3, 0),
            event(10, SoftirqBegin, 0, 3, 0),
            event(20, IrqBegin, 0, 9, 0),
            event(30, IrqEnd, 0, 9, 0),
            // Its end was lost.
            event(35, IrqBegin, 0, 4, 0),
            event(40, SoftirqEnd, 0, 3, 0),
            event(50, IrqBegin, 0, 9, 0),
        ];
        let told = interrupts(&sorted(&events));
        let seen: Vec<_> = told[&0].iter().map(|t| (t.from_ns, t.to_ns, t.name.as_str())).collect();
        assert_eq!(seen, [(20, 30, "irq 9"), (10, 40, "net_rx")]);
    }
}
