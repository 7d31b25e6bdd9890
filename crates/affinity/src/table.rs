// SPDX-License-Identifier: MIT OR Apache-2.0
//! The table: by device, by CPU, and as JSON.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::items::Item;
use planes::Cpus;
use planes::machine::Machine;

const NOTHING: &str = "nothing here has a place on CPUs that could be seen (a container, perhaps)\n";

/// Devices, and all that belongs to each.
pub fn by_device(items: &[Item]) -> String {
    if items.is_empty() {
        return NOTHING.to_owned();
    }
    let columns = |i: &Item| {
        let runs = i.runs_on.as_ref().map_or("-".to_owned(), Cpus::to_string);
        let events = i.events.map_or("-".to_owned(), |n| n.to_string());
        [i.id.clone(), i.cpus.to_string(), runs, events, i.name.clone()]
    };
    let head = ["WHAT", "CPUS", "RUNS ON", "EVENTS", "NAME"].map(str::to_owned);
    let rows: Vec<[String; 5]> = std::iter::once(head).chain(items.iter().map(columns)).collect();
    let width = |c: usize| rows.iter().map(|r| r[c].len()).max().unwrap_or(0);
    let widths = [0, 1, 2, 3].map(width);
    let mut text = String::new();
    let mut last = None;
    for (i, row) in rows.iter().enumerate() {
        if let Some(item) = i.checked_sub(1).map(|i| &items[i])
            && last != Some(&item.device)
        {
            let node = item.node.map_or(String::new(), |n| format!(", node {n}"));
            let device = if item.device.is_empty() { "others" } else { &item.device };
            let _ = writeln!(text, "{device}{node}");
            last = Some(&item.device);
        }
        let [a, b, c, d] = widths;
        let indent = if i == 0 { "" } else { "  " };
        let a = a + 2 - indent.len();
        let _ =
            writeln!(text, "{indent}{:a$}  {:b$}  {:c$}  {:>d$}  {}", row[0], row[1], row[2], row[3], row[4]);
    }
    text
}

/// CPUs, and what each may run; what runs on any CPU comes last.
pub fn by_cpu(machine: &Machine, items: &[Item]) -> String {
    if items.is_empty() {
        return NOTHING.to_owned();
    }
    let everywhere = |i: &Item| machine.cpus.len() > 1 && machine.online().without(&i.cpus).is_empty();
    let mut text = String::new();
    let mut list = |head: String, found: Vec<&Item>| {
        let _ = writeln!(text, "{head}");
        for i in found {
            let device = if i.device.is_empty() { "-" } else { &i.device };
            let _ = writeln!(text, "  {:20}  {:12}  {}", i.id, device, i.name);
        }
    };
    for cpu in &machine.cpus {
        let others = cpu.siblings.without(&Cpus::of(cpu.number));
        let sibling =
            if others.is_empty() { String::new() } else { format!(", shares its core with {others}") };
        let own = items.iter().filter(|i| i.cpus.contains(cpu.number) && !everywhere(i)).collect();
        list(format!("CPU {}: node {}{sibling}", cpu.number, cpu.node), own);
    }
    list("any CPU".to_owned(), items.iter().filter(|i| everywhere(i)).collect());
    list("no CPU".to_owned(), items.iter().filter(|i| i.cpus.is_empty()).collect());
    text
}

/// Both as JSON.
pub fn to_json(machine: &Machine, items: &[Item]) -> Value {
    let list = |cpus: &Cpus| cpus.iter().collect::<Vec<_>>();
    let cpus = machine
        .cpus
        .iter()
        .map(|c| json!({ "cpu": c.number, "node": c.node, "siblings": list(&c.siblings) }));
    let item = |i: &Item| {
        json!({ "id": i.id, "kind": i.kind.word(), "device": i.device, "name": i.name, "queue": i.queue, "node": i.node,
            "cpus": list(&i.cpus), "runs_on": i.runs_on.as_ref().map(list), "events": i.events })
    };
    json!({ "command": "affinity list", "version": env!("CARGO_PKG_VERSION"), "cpus": cpus.collect::<Vec<_>>(),
        "offline": list(&machine.offline), "items": items.iter().map(item).collect::<Vec<_>>() })
}
