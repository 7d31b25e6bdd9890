// SPDX-License-Identifier: MIT OR Apache-2.0
//! All that has a place on CPUs and bears on packets: interrupts, receive and transmit packet steering, NAPI threads, and
//! the workers of running routers.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use planes::Cpus;
use planes::machine::{Roots, entries, text};

/// What kind of thing is placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ItemKind {
    /// A device's interrupt.
    Interrupt,
    /// Receive packet steering: CPUs to which a receive queue's packets are handed in software.
    Rps,
    /// Transmit packet steering: CPUs whose packets go to a transmit queue.
    Xps,
    /// A kernel thread that polls a queue.
    Napi,
    /// A worker of a running router.
    Worker,
}

impl ItemKind {
    /// Its name in tables and in JSON.
    pub fn word(self) -> &'static str {
        match self {
            ItemKind::Interrupt => "irq",
            ItemKind::Rps => "rps",
            ItemKind::Xps => "xps",
            ItemKind::Napi => "napi",
            ItemKind::Worker => "worker",
        }
    }
}

/// Where the placement is read and written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AffinityTarget {
    /// A file that holds a list of CPUs.
    List(PathBuf),
    /// A file that holds a mask.
    Mask(PathBuf),
    /// The affinity of a thread.
    Thread(i32),
}

/// One thing that is placed.
#[derive(Clone, Debug)]
pub struct Item {
    /// How commands name it: `irq/38`, `eth0/rx-0/rps`, `eth0/tx-0/xps`, `eth0/napi-0`, `worker/4711/0`.
    pub id: String,
    /// What it is.
    pub kind: ItemKind,
    /// The network interface, or the process of a worker; empty for other interrupts.
    pub device: String,
    /// What the kernel calls it.
    pub name: String,
    /// Where its CPUs are set.
    pub place: AffinityTarget,
    /// CPUs it may run on, or hands packets to.
    pub cpus: Cpus,
    /// Where it runs in fact, if that can be known.
    pub runs_on: Option<Cpus>,
    /// Interrupts so far.
    pub events: Option<u64>,
    /// NUMA node of its device.
    pub node: Option<usize>,
    /// The number of the queue, in the order of its kind, within its device.
    pub queue: Option<usize>,
}

/// Everything, by device and kind.
pub fn scan(roots: &Roots) -> Vec<Item> {
    let mut items = Vec::new();
    let mut owners = HashMap::new();
    for (device, path) in entries(&roots.sys.join("class/net")) {
        let node = text(path.join("device/numa_node")).and_then(|n| n.parse::<usize>().ok());
        for irq in device_interrupts(&path) {
            owners.insert(irq, (device.clone(), node));
        }
        items.extend(steering(&device, &path, node));
    }
    let names: Vec<(String, Option<String>)> = entries(&roots.sys.join("class/net"))
        .into_iter()
        .map(|(name, path)| (name, bus_name(&path)))
        .collect();
    items.extend(interrupts(roots, &owners, &names));
    items.extend(threads(roots));
    number_queues(&mut items);
    items.sort_by(|a, b| {
        (a.device.is_empty(), &a.device, a.kind, a.queue).cmp(&(
            b.device.is_empty(),
            &b.device,
            b.kind,
            b.queue,
        ))
    });
    items
}

/// Interrupts that the bus lists for a device: its own directory's, or its parent's (virtio devices sit on a PCI one).
fn device_interrupts(path: &Path) -> Vec<u32> {
    let Ok(device) = std::fs::canonicalize(path.join("device")) else { return Vec::new() };
    let own = entries(&device.join("msi_irqs"));
    let list = match own.is_empty() {
        true => device.parent().map(|p| entries(&p.join("msi_irqs"))).unwrap_or_default(),
        false => own,
    };
    list.into_iter().filter_map(|(name, _)| name.parse().ok()).collect()
}

/// What the bus calls the device, as in `virtio2-input.0`.
fn bus_name(path: &Path) -> Option<String> {
    let device = std::fs::canonicalize(path.join("device")).ok()?;
    Some(device.file_name()?.to_string_lossy().into_owned())
}

fn steering(device: &str, path: &Path, node: Option<usize>) -> Vec<Item> {
    let mut items = Vec::new();
    for (queue, path) in entries(&path.join("queues")) {
        let (kind, file) = match queue.starts_with("rx-") {
            true => (ItemKind::Rps, path.join("rps_cpus")),
            false => (ItemKind::Xps, path.join("xps_cpus")),
        };
        // A device with one transmit queue has no such choice; reading fails.
        let Some(cpus) = text(&file).and_then(|t| Cpus::parse_mask(&t)) else { continue };
        items.push(Item {
            id: format!("{device}/{queue}/{}", kind.word()),
            kind,
            device: device.to_owned(),
            name: format!("{queue} {}", kind.word()),
            place: AffinityTarget::Mask(file),
            cpus,
            runs_on: None,
            events: None,
            node,
            queue: queue.get(3..).and_then(|n| n.parse().ok()),
        });
    }
    items
}

/// The interrupts of `/proc/interrupts` that have a number, and so an affinity.
fn interrupts(
    roots: &Roots,
    owners: &HashMap<u32, (String, Option<usize>)>,
    names: &[(String, Option<String>)],
) -> Vec<Item> {
    let table = text(roots.proc.join("interrupts")).unwrap_or_default();
    let columns = table.lines().next().map_or(0, |l| l.split_ascii_whitespace().count());
    let line = |line: &str| {
        let (number, rest) = line.trim_start().split_once(':')?;
        let number: u32 = number.parse().ok()?;
        let words: Vec<&str> = rest.split_ascii_whitespace().collect();
        let events = words.iter().take(columns).filter_map(|w| w.parse::<u64>().ok()).sum();
        let name = interrupt_name(words.get(columns..)?);
        let directory = roots.proc.join("irq").join(number.to_string());
        let place = directory.join("smp_affinity_list");
        let cpus = Cpus::parse_list(&text(&place)?)?;
        let effective = text(directory.join("effective_affinity_list")).and_then(|t| Cpus::parse_list(&t));
        let (device, node) = owners.get(&number).cloned().unwrap_or_else(|| (by_name(&name, names), None));
        Some(Item {
            id: format!("irq/{number}"),
            kind: ItemKind::Interrupt,
            device,
            name,
            place: AffinityTarget::List(place),
            cpus,
            runs_on: effective,
            events: Some(events),
            node,
            queue: None,
        })
    };
    table.lines().skip(1).filter_map(line).collect()
}

/// The name that the driver gave: the words behind the controller, its number and how it triggers.
fn interrupt_name(words: &[&str]) -> String {
    let edge = |w: &&str| {
        w.ends_with("-edge") || w.ends_with("-fasteoi") || w.ends_with("-level") || w.ends_with("-event")
    };
    let at = words
        .iter()
        .position(|w| edge(w) || matches!(*w, "Edge" | "Level"))
        .map_or(1.min(words.len()), |at| at + 1);
    words[at..].join(" ")
}

/// The interface whose name, or whose name on its bus, an interrupt bears.
fn by_name(name: &str, devices: &[(String, Option<String>)]) -> String {
    let bears = |own: &str| {
        name.match_indices(own).any(|(at, _)| {
            let ends = |c: Option<char>| c.is_none_or(|c| !c.is_ascii_alphanumeric());
            ends(name[..at].chars().next_back()) && ends(name[at + own.len()..].chars().next())
        })
    };
    let found = devices.iter().find(|(own, bus)| bears(own) || bus.as_deref().is_some_and(&bears));
    found.map(|(own, _)| own.clone()).unwrap_or_default()
}

/// NAPI threads, and workers of routers.
fn threads(roots: &Roots) -> Vec<Item> {
    let mut items = Vec::new();
    for (process, path) in entries(&roots.proc) {
        let Ok(pid) = process.parse::<i32>() else { continue };
        let Some(name) = text(path.join("comm")) else { continue };
        if let Some(device) = name.strip_prefix("napi/") {
            let device = device.rsplit_once('-').map_or(device, |(device, _)| device).to_owned();
            items.extend(thread(&path, pid, ItemKind::Napi, device, name));
        } else if name == "junctor" || name == "click" {
            items.extend(workers(&path, pid, &name));
        }
    }
    items
}

/// The workers of a process of ours; none if it runs no router.
fn workers(path: &Path, pid: i32, program: &str) -> Vec<Item> {
    let mut found = Vec::new();
    for (task, path) in entries(&path.join("task")) {
        let (Some(name), Ok(tid)) = (text(path.join("comm")), task.parse::<i32>()) else { continue };
        let Some(index) = name.strip_prefix("worker-").and_then(|n| n.parse().ok()) else { continue };
        found.extend(worker(&path, pid, tid, index));
    }
    // A router with one worker may run it on its first thread.
    let words = text(path.join("cmdline")).unwrap_or_default();
    let runs = program == "click" || words.split('\0').nth(1) == Some("run");
    if found.is_empty() && runs {
        found.extend(worker(path, pid, pid, 0));
    }
    found
}

fn worker(path: &Path, pid: i32, tid: i32, index: usize) -> Option<Item> {
    let item = thread(path, tid, ItemKind::Worker, format!("router {pid}"), format!("worker {index}"))?;
    Some(Item { id: format!("worker/{pid}/{index}"), queue: Some(index), ..item })
}

fn thread(path: &Path, tid: i32, kind: ItemKind, device: String, name: String) -> Option<Item> {
    let status = text(path.join("status"))?;
    let cpus = status.lines().find_map(|l| Cpus::parse_list(l.strip_prefix("Cpus_allowed_list:")?))?;
    // Field 39 of `stat`, counted from behind the name, which may hold blanks: the CPU it ran on last.
    let stat = text(path.join("stat")).unwrap_or_default();
    let last =
        stat.rsplit_once(')').and_then(|(_, rest)| rest.split_ascii_whitespace().nth(36)?.parse().ok());
    let place = AffinityTarget::Thread(tid);
    Some(Item {
        id: String::new(),
        kind,
        device,
        name,
        place,
        cpus,
        runs_on: last.map(Cpus::of),
        events: None,
        node: None,
        queue: None,
    })
}

/// Numbers interrupts by the queue they serve, and NAPI threads in the order of their numbers.
fn number_queues(items: &mut [Item]) {
    let nodes: HashMap<String, Option<usize>> =
        items.iter().filter(|i| i.kind == ItemKind::Rps).map(|i| (i.device.clone(), i.node)).collect();
    let mut napi: Vec<&mut Item> = items.iter_mut().filter(|i| i.kind == ItemKind::Napi).collect();
    let id = |name: &str| name.rsplit_once('-').and_then(|(_, n)| n.parse::<u64>().ok()).unwrap_or(0);
    napi.sort_by_key(|i| (i.device.clone(), id(&i.name)));
    let mut next: HashMap<String, usize> = HashMap::new();
    for item in napi {
        let number = next.entry(item.device.clone()).or_default();
        item.queue = Some(*number);
        item.id = format!("{}/napi-{number}", item.device);
        item.node = nodes.get(&item.device).copied().flatten();
        *number += 1;
    }
    for item in items.iter_mut().filter(|i| i.kind == ItemKind::Interrupt && !i.device.is_empty()) {
        item.queue = queue_of(&item.name);
    }
}

/// The queue that an interrupt serves, by the drivers' habits: `eth0-TxRx-3`, `virtio2-input.0`, `mlx5_comp7@pci:...`,
/// `ens5-Tx-Rx-1`. Those that serve none (`virtio2-config`, `mlx5_async@...`) have no number behind such a word.
fn queue_of(name: &str) -> Option<usize> {
    let name = name.split('@').next().unwrap_or(name);
    let lower = name.to_ascii_lowercase();
    let digits = lower.len() - lower.trim_end_matches(|c: char| c.is_ascii_digit()).len();
    let number = lower[lower.len() - digits..].parse().ok()?;
    let stem = lower[..lower.len() - digits].trim_end_matches(['-', '.', '_']);
    ["rx", "tx", "input", "output", "comp", "queue", "q"].iter().any(|w| stem.ends_with(w)).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interrupts_are_known_by_their_names() {
        for (name, queue) in [
            ("eth0-TxRx-3", Some(3)),
            ("ens5-Tx-Rx-1", Some(1)),
            ("virtio2-input.0", Some(0)),
            ("virtio2-config", None),
            ("mlx5_comp7@pci:0000:3b:00.0", Some(7)),
            ("mlx5_async0@pci:0000:3b:00.0", None),
            ("i40e-eth2-TxRx-15", Some(15)),
            ("ttyS0", None),
        ] {
            assert_eq!(queue_of(name), queue, "{name}");
        }
        let devices = [("eth1".to_owned(), None), ("eth0".to_owned(), Some("virtio2".to_owned()))];
        for (name, device) in [
            ("virtio2-input.0", "eth0"),
            ("virtio21-input.0", ""),
            ("i40e-eth1-TxRx-0", "eth1"),
            ("eth10", ""),
        ] {
            assert_eq!(by_name(name, &devices), device, "{name}");
        }
        let words: Vec<&str> = "PCI-MSIX-0000:00:03.0 1-edge virtio2-input.0".split(' ').collect();
        assert_eq!(interrupt_name(&words), "virtio2-input.0");
        assert_eq!(interrupt_name(&["IR-PCI-MSI", "524288-edge", "eth0-TxRx-0"]), "eth0-TxRx-0");
        assert_eq!(interrupt_name(&["GICv3", "23", "Level", "arch_timer"]), "arch_timer");
    }
}
