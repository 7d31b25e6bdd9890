// SPDX-License-Identifier: MIT OR Apache-2.0
//! The automatic spread.
//!
//! Each device's queues go to the CPUs of its NUMA node, one after the other: a thread of each core before any core's second
//! thread, and the next device on a node goes on where the last one ended. The interrupts of a queue, receive and transmit,
//! and its NAPI thread share a CPU, so that a packet's completion meets what its reception loaded. The CPUs of the node
//! then send on queue `c mod n` (XPS), and where a device has fewer queues than its node CPUs, each queue hands packets to
//! every n-th CPU (RPS); where it has enough, that hand-off would only cost.
//!
//! Of devices that are not named, those are left alone that have neither interrupts nor NAPI threads: loopback, bridges, tunnels.
//! Workers of a router get a core each if they do not have one already, those near no particular device.

use std::collections::HashMap;

use crate::change::Change;
use crate::items::{Item, ItemKind};
use planes::Cpus;
use planes::machine::Machine;

/// What to spread.
#[derive(Clone, Debug, Default)]
pub struct Wish {
    /// Only these devices; all if empty.
    pub devices: Vec<String>,
    /// Only on these CPUs.
    pub cpus: Option<Cpus>,
    /// Leave receive packet steering as it is.
    pub keep_rps: bool,
    /// Leave the workers where they are.
    pub keep_workers: bool,
}

/// The changes that a spread makes, in the order of the items.
pub fn spread(machine: &Machine, items: &[Item], wish: &Wish) -> Vec<Change> {
    let mut devices: Vec<&str> = items.iter().map(|i| i.device.as_str()).filter(|d| !d.is_empty()).collect();
    devices.dedup();
    let wanted = |d: &str| wish.devices.is_empty() || wish.devices.iter().any(|w| w == d);
    let mut cursors = HashMap::new();
    let mut changes = Vec::new();
    for device in devices.into_iter().filter(|d| wanted(d)) {
        let own: Vec<&Item> = items.iter().filter(|i| i.device == device).collect();
        match own.first().map(|i| i.kind) {
            Some(ItemKind::Worker) if wish.keep_workers => {}
            Some(ItemKind::Worker) => changes.extend(spread_workers(machine, &own, wish)),
            _ if wish.devices.is_empty() && !own.iter().any(|i| works(i)) => {}
            _ => changes.extend(spread_device(machine, &own, wish, &mut cursors)),
        }
    }
    changes
}

/// Whether it does a device's work on its CPU.
fn works(item: &Item) -> bool {
    matches!(item.kind, ItemKind::Interrupt | ItemKind::Napi)
}

fn candidates(machine: &Machine, node: Option<usize>, wish: &Wish) -> Vec<usize> {
    let usable = |cpus: Vec<usize>| -> Vec<usize> {
        cpus.into_iter().filter(|c| wish.cpus.as_ref().is_none_or(|w| w.contains(*c))).collect()
    };
    let near = usable(machine.in_order(node));
    // Where none of the wished CPUs is near, those that were wished.
    if near.is_empty() { usable(machine.in_order(None)) } else { near }
}

fn spread_device(
    machine: &Machine,
    own: &[&Item],
    wish: &Wish,
    cursors: &mut HashMap<Option<usize>, usize>,
) -> Vec<Change> {
    let node = own.iter().find_map(|i| i.node);
    let cpus = candidates(machine, node, wish);
    if cpus.is_empty() {
        return Vec::new();
    }
    let queues =
        |kind| own.iter().filter(|i| i.kind == kind).filter_map(|i| i.queue).max().map_or(0, |q| q + 1);
    let (receive, transmit) = (queues(ItemKind::Rps), queues(ItemKind::Xps));
    let most = [ItemKind::Interrupt, ItemKind::Rps, ItemKind::Xps, ItemKind::Napi]
        .map(queues)
        .into_iter()
        .max()
        .unwrap_or(0);
    let start = cursors.entry(node).or_default();
    let first = *start % cpus.len();
    *start += if own.iter().any(|i| works(i)) { most } else { 0 };
    let home = |queue: usize| cpus[(first + queue) % cpus.len()];
    // Every n-th CPU, those on which the queue's own work runs first.
    let share = |queue: usize, n: usize| -> Cpus {
        (0..cpus.len()).filter(|i| i % n.max(1) == queue % n.max(1)).map(home).collect()
    };
    let place = |item: &&Item| {
        let queue = item.queue?;
        let to = match item.kind {
            ItemKind::Interrupt | ItemKind::Napi => Cpus::of(home(queue)),
            ItemKind::Xps => share(queue, transmit),
            ItemKind::Rps if wish.keep_rps => return None,
            ItemKind::Rps if receive >= cpus.len() => Cpus::default(),
            ItemKind::Rps => share(queue, receive),
            ItemKind::Worker => return None,
        };
        Change::of(item, &to)
    };
    own.iter().filter_map(place).collect()
}

/// A CPU for each worker that has none of its own.
fn spread_workers(machine: &Machine, own: &[&Item], wish: &Wish) -> Vec<Change> {
    let cpus = candidates(machine, None, wish);
    let mut taken: Vec<usize> = Vec::new();
    let mut homeless = Vec::new();
    for item in own {
        match (item.cpus.len(), item.cpus.iter().next()) {
            (1, Some(cpu)) if !taken.contains(&cpu) && cpus.contains(&cpu) => taken.push(cpu),
            _ => homeless.push(item),
        }
    }
    let mut free: Vec<usize> = cpus.iter().copied().filter(|c| !taken.contains(c)).collect();
    // A core of which another worker has a thread comes last.
    let sibling = |c: &usize| {
        machine
            .cpus
            .iter()
            .find(|m| m.number == *c)
            .is_some_and(|m| m.siblings.iter().any(|s| taken.contains(&s)))
    };
    free.sort_by_key(sibling);
    let free = if free.is_empty() { cpus } else { free };
    let place = |(i, item): (usize, &&Item)| Change::of(item, &Cpus::of(*free.get(i % free.len().max(1))?));
    homeless.into_iter().enumerate().filter_map(place).collect()
}
