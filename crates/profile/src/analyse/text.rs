// SPDX-License-Identifier: MIT OR Apache-2.0
//! A report as text.

use std::fmt::{self, Display, Formatter};

use sync::events::Mask;

use super::counted::Counted;
use super::over_time::{self, Moment};
use super::processors::{Share, Thread};
use super::rare::Rare;
use super::{FiredAt, Report};

/// Rows of cells, the first column to the left, the others to the right.
fn table(f: &mut Formatter<'_>, title: &str, head: &[&str], rows: &[Vec<String>]) -> fmt::Result {
    if rows.is_empty() {
        return Ok(());
    }
    let widest = |column: usize| {
        let cells = rows.iter().filter_map(|r| r.get(column)).map(|c| c.chars().count());
        cells.chain([head[column].len()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..head.len()).map(widest).collect();
    writeln!(f, "\n{title}")?;
    let head: Vec<String> = head.iter().map(|h| (*h).to_owned()).collect();
    for row in std::iter::once(&head).chain(rows) {
        let mut line = String::new();
        for (i, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let cell = if i == 0 { format!("  {cell:<width$}") } else { format!("  {cell:>width$}") };
            line.push_str(&cell);
        }
        writeln!(f, "{}", line.trim_end())?;
    }
    Ok(())
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// A number of any size in few digits.
fn quantity(value: f64) -> String {
    match value {
        _ if value >= 1e9 => format!("{:.2}G", value / 1e9),
        _ if value >= 1e6 => format!("{:.2}M", value / 1e6),
        _ if value >= 1e3 => format!("{:.1}k", value / 1e3),
        _ => format!("{value:.1}"),
    }
}

/// A dash for what is not known.
fn known(value: Option<String>) -> String {
    value.unwrap_or_else(|| "-".into())
}

impl Display for Report {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:.1} ms; {} engine events, {} kernel events, {} lost; one in {} runs of tasks",
            self.duration_ms, self.events, self.kernel_events, self.lost, self.one_in
        )?;
        if !self.complete {
            writeln!(
                f,
                "The recording has no end: the router ended in mid-record, or its disk was full. This is what was kept."
            )?;
        }
        let (from, to) = self.shares_of_ms;
        if from > 0.0 || to < self.duration_ms {
            writeln!(
                f,
                "shares of threads and locks: from {from:.3} to {to:.3} ms, of which the rings of all threads tell"
            )?;
        }
        self.trigger(f)?;
        for missing in &self.missing {
            writeln!(f, "not recorded: {}: {}", missing.what, missing.why)?;
            if !missing.mend.is_empty() {
                writeln!(f, "  mend: {}", missing.mend)?;
            }
        }
        writeln!(f, "\nFindings")?;
        if self.threads.is_empty() && self.records(Mask::TASKS) {
            writeln!(f, "  none can be had: no thread of the router told of anything")?;
        } else if self.threads.is_empty() {
            writeln!(f, "  none: nothing happened of what was recorded ({})", self.recorded)?;
        } else if self.findings.is_empty() {
            writeln!(f, "  none: no lock, queue, interrupt or neighbour costs this router worth a word")?;
        }
        for finding in &self.findings {
            writeln!(f, "  {}\n    -> {}", finding.text, finding.mend)?;
        }
        self.processors(f)?;
        self.over_time(f)?;
        self.threads(f)?;
        self.counters(f)?;
        self.elements(f)?;
        self.queues(f)?;
        self.waits(f)?;
        self.rare(f)
    }
}

impl Report {
    /// Whether threads recorded such events.
    fn records(&self, what: Mask) -> bool {
        self.recorded.parse().is_ok_and(|mask: Mask| mask.meets(what))
    }

    /// What ended it, or did not.
    fn trigger(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match &self.fired {
            Some(FiredAt { at_ms, fired }) => {
                writeln!(f, "{}: {}", fired.condition, fired.what)?;
                writeln!(f, "  at {at_ms:.3} ms; {}", fired.kept())
            }
            None if self.until.is_empty() => Ok(()),
            None if self.complete => writeln!(f, "{}: has not happened", self.until.join(", ")),
            None => writeln!(f, "{}: not known whether it has happened", self.until.join(", ")),
        }
    }

    /// A thread's name, with its number where others have the same name.
    fn name_of(&self, thread: &Thread) -> String {
        let same = self.threads.iter().filter(|other| other.name == thread.name).count();
        if same > 1 && thread.id != 0 {
            format!("{} ({})", thread.name, thread.id)
        } else {
            thread.name.clone()
        }
    }

    /// A thread's name; one of another program that is called like one of the router's is distinguished from it.
    pub(super) fn name_of_share(&self, share: &Share) -> String {
        let Share { name, id, router, .. } = share;
        match !router && self.threads.iter().any(|own| own.name == *name) {
            true => format!("another program's {name} (thread {id})"),
            false => name.clone(),
        }
    }

    fn processors(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let rows: Vec<Vec<String>> = self
            .processors
            .iter()
            .map(|p| {
                let shares = [p.router, p.others, p.interrupts, p.softirqs, p.idle].map(percent);
                let most = p.threads.first();
                let most =
                    most.map_or(String::new(), |t| format!("{} {}", self.name_of_share(t), percent(t.share)));
                std::iter::once(format!("CPU {}", p.cpu)).chain(shares).chain([most]).collect()
            })
            .collect();
        table(f, "Processors", &["", "router", "others", "irq", "softirq", "idle", "most"], &rows)
    }

    fn over_time(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.processors.is_empty() {
            return Ok(());
        }
        writeln!(f, "\nProcessors over time, from left to right in {} equal parts", over_time::PARTS)?;
        let widest = self.processors.iter().map(|p| p.cpu.to_string().len()).max().unwrap_or(0);
        for p in &self.processors {
            let letters: String = p.over_time.iter().map(Moment::letter).collect();
            writeln!(f, "  CPU {:<widest$} |{letters}|", p.cpu)?;
        }
        writeln!(f, "  {}", over_time::LETTERS)
    }

    fn threads(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let rows: Vec<Vec<String>> = self
            .threads
            .iter()
            .map(|t| {
                let own = [t.working, t.waiting_for_locks, t.sleeping].map(|share| known(share.map(percent)));
                let kernel = [t.running, t.ready, t.blocked].map(|share| known(share.map(percent)));
                let counts = [t.migrations, t.preempted, t.yielded].map(|n| known(n.map(|n| n.to_string())));
                std::iter::once(self.name_of(t)).chain(own).chain(kernel).chain(counts).collect()
            })
            .collect();
        let head = [
            "",
            "working",
            "lock waits",
            "sleeping",
            "running",
            "ready",
            "blocked",
            "moves",
            "preempted",
            "yielded",
        ];
        table(f, "Threads of the router", &head, &rows)?;
        if self.threads.iter().any(|t| [t.working, t.waiting_for_locks, t.sleeping].contains(&None)) {
            writeln!(f, "  -: not recorded; what was, by --events: {}", self.recorded)?;
        }
        if self.threads.iter().any(|t| t.working.is_some()) {
            writeln!(f, "  working: in tasks and timers, with what they wait for locks")?;
        }
        if self.threads.iter().any(|t| t.running.is_some()) {
            writeln!(f, "  running, ready, blocked: of the time since the kernel first told of the thread")?;
        }
        if self.threads.iter().any(|t| t.running.is_none()) {
            writeln!(f, "  -: not known, for the kernel told nothing of the thread's switches")?;
        }
        let waits = self.threads.iter().flat_map(|t| {
            t.blocked_on.iter().map(|on| vec![self.name_of(t), percent(on.share), on.what.clone()])
        });
        table(f, "Blocked", &["", "time", "on"], &waits.collect::<Vec<_>>())
    }

    fn counters(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut names: Vec<&str> = Vec::new();
        for count in self.counters.iter().flat_map(|c| &c.counts) {
            if !names.contains(&count.counter.as_str()) {
                names.push(&count.counter);
            }
        }
        let per_s = |c: &Counted, name: &&str| {
            known(c.count(name).map(|count| match *name {
                // Nanoseconds in a second.
                "task-clock" => percent(count.per_s / 1e9),
                _ => quantity(count.per_s),
            }))
        };
        let ratio = |ratio: Option<f64>| known(ratio.map(|ratio| format!("{ratio:.2}")));
        let ratios = self.counters.iter().any(|c| c.instructions_per_cycle.is_some());
        let row = |c: &Counted| {
            let mut row = vec![c.name.clone()];
            row.extend(names.iter().map(|name| per_s(c, name)));
            if ratios {
                row.push(ratio(c.instructions_per_cycle));
                row.push(ratio(c.cache_misses_per_1000_instructions));
            }
            row
        };
        let mut head: Vec<&str> = std::iter::once("").chain(names.iter().copied()).collect();
        if ratios {
            head.extend(["instructions/cycle", "misses/1000 instructions"]);
        }
        table(f, "Counters, a second", &head, &self.counters.iter().map(row).collect::<Vec<_>>())?;
        let user_only = self.counters.iter().flat_map(|c| &c.counts).any(|count| count.user_only);
        if user_only {
            writeln!(
                f,
                "  counted only while threads were not in the kernel, for lack of the right to more"
            )?;
        }
        Ok(())
    }

    fn elements(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let rows: Vec<Vec<String>> = self
            .elements
            .iter()
            .map(|e| {
                vec![
                    format!("{} :: {}", e.name, e.class),
                    percent(e.share),
                    format!("{:.1}", e.cycles_per_packet),
                    format!("{:.1}", e.ns_per_packet),
                    format!("{:.1}", e.packets_per_batch),
                    e.batches.to_string(),
                ]
            })
            .collect();
        table(
            f,
            "Elements",
            &["", "share", "cycles/packet", "ns/packet", "packets/batch", "batches"],
            &rows,
        )?;
        if !rows.is_empty() && self.threads.iter().any(|t| t.running.is_none()) {
            writeln!(f, "  with the time in which others had the processor, which is not known")?;
        }
        Ok(())
    }

    fn queues(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let rows: Vec<Vec<String>> = self
            .queues
            .iter()
            .map(|q| {
                let per =
                    |packets: u64, batches: u64| format!("{:.1}", packets as f64 / (batches as f64).max(1.0));
                vec![
                    q.name.clone(),
                    q.filled_by.join(","),
                    q.drained_by.join(","),
                    per(q.packets_in, q.batches_in),
                    per(q.packets_out, q.batches_out),
                    format!("{:.1}", q.cycles_per_packet_in),
                    format!("{:.1}", q.cycles_per_packet_out),
                    q.full_packets.to_string(),
                    q.full.to_string(),
                    q.held_back.first().map_or(String::new(), |held| percent(held.share)),
                    q.empty.to_string(),
                    q.wakes.to_string(),
                ]
            })
            .collect();
        let head = [
            "",
            "filled by",
            "drained by",
            "in/batch",
            "out/batch",
            "cycles in",
            "cycles out",
            "no room",
            "full",
            "holds back",
            "empty",
            "wakes",
        ];
        table(f, "Queues", &head, &rows)?;
        if !rows.is_empty() && self.one_in > 1 {
            let n = self.one_in;
            writeln!(
                f,
                "  no room, full, holds back, wakes: all there were; the others: of the runs told of, one in {n}"
            )?;
        }
        let drops =
            self.drops.iter().map(|d| vec![d.element.clone(), d.reason.clone(), d.packets.to_string()]);
        table(f, "Drops", &["", "reason", "packets"], &drops.collect::<Vec<_>>())
    }

    fn waits(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let rows: Vec<Vec<String>> = self
            .locks
            .iter()
            .map(|l| {
                vec![
                    format!("{} ({})", l.name, l.how),
                    percent(l.share),
                    l.acquisitions.to_string(),
                    l.contended.to_string(),
                    format!("{:.1}", l.wait_us),
                    format!("{:.1}", l.worst_wait_us),
                    known(l.owner_away_us.map(|us| format!("{us:.1}"))),
                    format!("{:.0}", l.held_ns),
                    l.at.clone(),
                ]
            })
            .collect();
        let head = [
            "",
            "waiters' time",
            "told",
            "waits",
            "waited us",
            "worst us",
            "owner away us",
            "held ns",
            "made at",
        ];
        table(f, "Locks", &head, &rows)?;
        let unready: f64 = self.locks.iter().filter_map(|l| l.unready_us).sum();
        if unready >= 0.1 {
            writeln!(
                f,
                "  without {unready:.1} us in which waiters could have gone on, but had no processor"
            )?;
        }
        if self.locks.iter().any(|l| l.owner_away_us.is_some_and(|us| us > 0.0)) {
            writeln!(f, "  owner away: of the time waited, in which who held it had no processor")?;
        }
        let pairs = self.locks.iter().flat_map(|l| l.pairs.iter().map(move |p| (l, p)));
        let rows: Vec<Vec<String>> = pairs
            .map(|(l, p)| {
                let (waits, us) = (p.waits.to_string(), format!("{:.1}", p.wait_us));
                vec![l.name.clone(), p.owner.clone(), p.waiter.clone(), waits, us]
            })
            .collect();
        table(f, "Who waited for whom", &["", "owner", "waiter", "waits", "waited us"], &rows)?;
        let rows: Vec<Vec<String>> = self
            .stalls
            .iter()
            .map(|s| {
                let away = known(s.away_us.map(|us| format!("{us:.1}")));
                let (at, took) = (format!("{:.3}", s.at_ms), format!("{:.1}", s.took_us));
                vec![s.what.clone(), s.thread.clone(), at, took, away]
            })
            .collect();
        table(f, "Longest", &["", "thread", "at ms", "took us", "of it off CPU us"], &rows)
    }

    fn rare(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let us = |us: Option<f64>| us.map_or(String::new(), |us| format!("{us:.1}"));
        let row = |r: &Rare| {
            let packets = r.packets.map_or(String::new(), |packets| packets.to_string());
            vec![r.what.clone(), r.times.to_string(), packets, us(r.took_us), us(r.worst_us)]
        };
        let rows: Vec<Vec<String>> = self.rare.iter().map(row).collect();
        table(f, "Besides", &["", "times", "packets", "took us", "worst us"], &rows)
    }
}
