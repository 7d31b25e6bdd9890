// SPDX-License-Identifier: MIT OR Apache-2.0
//! Machines made of files, and what `affinity` makes of them.

use std::path::Path;

use crate::change::Change;
use crate::items::{Item, ItemKind, scan};
use crate::spread::{Wish, spread};
use crate::{saved, table};
use planes::Cpus;
use planes::machine::{Machine, Roots};

fn put(root: &Path, path: &str, text: &str) {
    let path = root.join(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

fn cpus(root: &Path, online: &str, present: &str, siblings: impl Fn(usize) -> String, nodes: &[&str]) {
    put(root, "sys/devices/system/cpu/online", online);
    put(root, "sys/devices/system/cpu/present", present);
    for cpu in Cpus::parse_list(online).unwrap().iter() {
        put(root, &format!("sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"), &siblings(cpu));
    }
    for (node, list) in nodes.iter().enumerate() {
        put(root, &format!("sys/devices/system/node/node{node}/cpulist"), list);
    }
}

fn irq(root: &Path, number: usize, cpus: &str) {
    put(root, &format!("proc/irq/{number}/smp_affinity_list"), cpus);
    put(root, &format!("proc/irq/{number}/effective_affinity_list"), "0");
}

fn process(root: &Path, path: &str, name: &str, cpus: &str) {
    put(root, &format!("proc/{path}/comm"), &format!("{name}\n"));
    put(root, &format!("proc/{path}/status"), &format!("Name:\t{name}\nCpus_allowed_list:\t{cpus}\n"));
}

/// Two sockets of eight cores with two threads each: CPUs 0-7 and 16-23 on the first. A network card of 16 queues on each.
fn two_sockets(root: &Path) {
    cpus(root, "0-31", "0-32", |c| format!("{},{}", c % 16, c % 16 + 16), &["0-7,16-23", "8-15,24-31"]);
    let mut table = (0..32).map(|c| format!("CPU{c} ")).collect::<String>() + "\n";
    for (node, device) in ["eth0", "eth1"].iter().enumerate() {
        let card = format!("sys/devices/pci{node}/card");
        put(root, &format!("{card}/numa_node"), &node.to_string());
        put(root, &format!("{card}/net/{device}/mtu"), "1500");
        std::fs::create_dir_all(root.join(format!("sys/class/net/{device}/queues"))).unwrap();
        let link = root.join(format!("sys/class/net/{device}/device"));
        std::os::unix::fs::symlink(root.join(&card), link).unwrap();
        for queue in 0..16 {
            let number = 100 * (node + 1) + queue;
            put(root, &format!("{card}/msi_irqs/{number}"), "msix");
            irq(root, number, "0-31");
            let counts = "1 ".repeat(32);
            table += &format!(" {number}: {counts} IR-PCI-MSI {number}-edge {device}-TxRx-{queue}\n");
            put(root, &format!("sys/class/net/{device}/queues/rx-{queue}/rps_cpus"), "00000000");
            put(root, &format!("sys/class/net/{device}/queues/tx-{queue}/xps_cpus"), "00000000");
        }
    }
    put(root, "proc/interrupts", &table);
}

/// A virtual machine with two CPUs and one virtio card, whose interrupts its PCI device lists; a router runs.
fn virtual_machine(root: &Path) {
    cpus(root, "0-1", "0-1", |c| c.to_string(), &["0-1"]);
    put(root, "sys/devices/pci0/virtio2/vendor", "");
    put(root, "sys/devices/pci0/msi_irqs/38", "msix");
    put(root, "sys/class/net/eth0/queues/rx-0/rps_cpus", "0");
    put(root, "sys/class/net/lo/queues/rx-0/rps_cpus", "0");
    // Of a single transmit queue the kernel refuses to say anything.
    put(root, "sys/class/net/eth0/queues/tx-0/tx_timeout", "0");
    std::os::unix::fs::symlink(root.join("sys/devices/pci0/virtio2"), root.join("sys/class/net/eth0/device"))
        .unwrap();
    let lines = " 26: 0 16 IO-APIC 4-edge ttyS0\n 37: 0 0 PCI-MSIX-0000:00:03.0 0-edge virtio2-config\n \
                 38: 5 7 PCI-MSIX-0000:00:03.0 1-edge virtio2-input.0\nNMI: 0 0 Non-maskable\n";
    put(root, "proc/interrupts", &format!(" CPU0 CPU1\n{lines}"));
    [26, 37, 38].iter().for_each(|n| irq(root, *n, "0-1"));
    process(root, "70", "napi/eth0-12", "0-1");
    process(root, "71", "napi/eth0-9", "0-1");
    process(root, "80", "junctor", "0-1");
    process(root, "80/task/80", "junctor", "0-1");
    process(root, "80/task/81", "worker-0", "1");
    process(root, "80/task/82", "worker-1", "1");
    process(root, "90", "junctor", "0-1");
    put(root, "proc/90/cmdline", "junctor\0check\0x\0");
}

fn with(make: impl Fn(&Path), check: impl Fn(&Roots, &Machine, &[Item])) {
    let root = tempfile::tempdir().unwrap();
    make(root.path());
    let roots = Roots::below(root.path());
    check(&roots, &Machine::read(&roots), &scan(&roots));
}

fn of(changes: &[Change], kind: ItemKind) -> Vec<(String, String)> {
    changes.iter().filter(|c| c.kind == kind).map(|c| (c.id.clone(), c.to.to_list())).collect()
}

#[test]
fn queues_stay_on_their_node_and_take_cores_first() {
    with(two_sockets, |roots, machine, items| {
        assert_eq!(items.len(), 2 * 16 * 3);
        assert_eq!(machine.offline, Cpus::of(32));
        let changes = spread(machine, items, &Wish::default());
        let irqs = of(&changes, ItemKind::Interrupt);
        let cores = [0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23];
        for (node, first) in [(0, 100), (1, 200)] {
            for (queue, core) in cores.iter().enumerate() {
                let want = (format!("irq/{}", first + queue), (core + 8 * node).to_string());
                assert!(irqs.contains(&want), "{want:?} in {irqs:?}");
            }
        }
        // As many queues as CPUs: no steering in software, and each CPU has its transmit queue.
        assert_eq!(of(&changes, ItemKind::Rps), []);
        let xps = of(&changes, ItemKind::Xps);
        assert_eq!((xps.len(), xps[8].clone()), (32, ("eth0/tx-8/xps".to_owned(), "16".to_owned())));

        // Made, everything is as it should be, and comes back as it was.
        let before = saved::write(items);
        changes.iter().for_each(|c| c.apply(roots).unwrap());
        let now = scan(roots);
        assert_eq!(spread(machine, &now, &Wish::default()), []);
        let back = saved::read(&before, &now).unwrap();
        assert_eq!((back.changes.len(), back.missing.len()), (changes.len(), 0));
        back.changes.iter().for_each(|c| c.apply(roots).unwrap());
        assert_eq!(saved::write(&scan(roots)), before);
    });
}

#[test]
fn few_cpus_share_many_queues() {
    with(two_sockets, |_, machine, items| {
        let wish = Wish { cpus: Cpus::parse_list("0-3"), devices: vec!["eth0".into()], ..Wish::default() };
        let changes = spread(machine, items, &wish);
        for kind in [ItemKind::Interrupt, ItemKind::Xps] {
            let mut load = [0; 4];
            for (id, cpu) in of(&changes, kind) {
                assert!(kind == ItemKind::Interrupt || id.starts_with("eth0/"), "{id}");
                // Of 16 queues, four CPUs need but four to send on.
                cpu.parse::<usize>().into_iter().for_each(|cpu: usize| load[cpu] += 1);
            }
            assert!(load.iter().all(|n| *n == load[0] && *n > 0), "{kind:?} {load:?}");
        }
    });
}

#[test]
fn a_single_queue_is_steered_to_all() {
    with(virtual_machine, |_, machine, items| {
        let irq: Vec<_> = items.iter().filter(|i| i.kind == ItemKind::Interrupt).collect();
        let named: Vec<_> =
            irq.iter().map(|i| (i.id.as_str(), i.device.as_str(), i.queue, i.events)).collect();
        let want = [
            ("irq/37", "eth0", None, Some(0)),
            ("irq/38", "eth0", Some(0), Some(12)),
            ("irq/26", "", None, Some(16)),
        ];
        assert_eq!(named, want);
        let changes = spread(machine, items, &Wish::default());
        assert_eq!(of(&changes, ItemKind::Interrupt), [("irq/38".to_owned(), "0".to_owned())]);
        assert_eq!(of(&changes, ItemKind::Rps), [("eth0/rx-0/rps".to_owned(), "0-1".to_owned())]);
        // The loopback interface is spread only if it is named.
        let named = Wish { devices: vec!["lo".into()], ..Wish::default() };
        let lo = [("lo/rx-0/rps".to_owned(), "0-1".to_owned())];
        assert_eq!(of(&spread(machine, items, &named), ItemKind::Rps), lo);
        let napi = [("eth0/napi-0".to_owned(), "0".to_owned()), ("eth0/napi-1".to_owned(), "1".to_owned())];
        assert_eq!(of(&changes, ItemKind::Napi), napi);
        // Two workers on one CPU: the first stays.
        assert_eq!(of(&changes, ItemKind::Worker), [("worker/80/1".to_owned(), "0".to_owned())]);
        let text = table::by_cpu(machine, items);
        assert!(text.contains("CPU 1: node 0\n  worker/80/0"), "{text}");
        let longest = table::by_device(items).lines().map(str::len).max();
        assert!(longest < Some(80), "{}", table::by_device(items));
    });
}

#[test]
fn files_name_interrupts_by_their_names() {
    with(virtual_machine, |_, _, items| {
        let read = |line: &str| saved::read(&format!("# junctor affinity, version 1\n{line}\n"), items);
        // It had another number when it was saved.
        let moved = read("irq/55 = 1 # virtio2-input.0").unwrap();
        assert_eq!(of(&moved.changes, ItemKind::Interrupt), [("irq/38".to_owned(), "1".to_owned())]);
        assert_eq!(read("irq/38 = 1 # something else").unwrap().missing, ["irq/38 something else"]);
        assert_eq!(read("eth7/rx-0/rps = 1").unwrap().missing, ["eth7/rx-0/rps"]);
        assert!(read("irq/38 1").is_err() && read("irq/38 = x").is_err());
        assert!(saved::read("irq/38 = 1\n", items).is_err());
    });
}

#[test]
fn a_container_has_nothing() {
    with(
        |_| {},
        |_, machine, items| {
            assert_eq!((items.len(), machine.cpus.len()), (0, 1));
            assert_eq!(spread(machine, items, &Wish::default()), []);
            assert!(
                table::by_device(items).contains("nothing")
                    && table::by_cpu(machine, items).contains("nothing")
            );
        },
    );
}

#[test]
fn cpus_that_are_not_there_are_refused() {
    with(two_sockets, |_, machine, items| {
        let told = |to: &str| Change::of(&items[0], &Cpus::parse_list(to).unwrap()).unwrap().check(machine);
        assert!(told("32").unwrap_err().contains("off line"), "{:?}", told("32"));
        assert!(told("40").unwrap_err().contains("no CPU 40"));
        assert!(told("none").unwrap_err().contains("somewhere"));
        assert_eq!(told("31"), Ok(()));
    });
}
