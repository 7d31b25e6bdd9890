// SPDX-License-Identifier: MIT OR Apache-2.0
//! Speed and size of the IPv6 table: `cargo bench -p junctor-tables --bench fib6 [-- lookups|build]`.
//!
//! Routes and updates are RIPE NCC RIS, peer AS3333, 2026-05-11, from `shared/data` next to the repository; without them a synthetic table with a
//! like mix of lengths serves. Workloads: `rand`, uniform addresses of 2000::/3; `pfx`, a random host in a random prefix; `zipf`, 65,536 flows in
//! trains. Each figure is the median of interleaved rounds.
//!
//! The yardsticks, in the same rounds: a binary search among all keys where the answer may change (starts and answers kept
//! apart), and a hash table for each length, longest first (`std`'s map), the plainest FIB in software.

use junctor_tables::fib6::{Change, Fib6Reader, Fib6Writer, NextHopId, Variant};
use std::{
    collections::{HashMap, HashSet},
    path::PathBuf,
    process::Command,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::{Duration, Instant},
};
use sync::rcu::Domain;
use wire::Prefix6;

const ADDRS: usize = 1 << 20;
const BATCH: usize = 32;
const ROUNDS: usize = 9;

/// xorshift64*: fast, seeded, good enough to choose addresses.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.next()) * bound as u128) >> 64) as usize
    }

    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

fn data(name: &str) -> Option<String> {
    let from = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let path = from.ancestors().map(|dir| dir.join("shared/data").join(name)).find(|path| path.exists())?;
    let out = Command::new("xz").arg("-dc").arg(path).output().ok().filter(|out| out.status.success())?;
    String::from_utf8(out.stdout).ok()
}

type Route = (Prefix6, NextHopId);

fn route(prefix: &str, id: &str) -> Option<Route> {
    Some((prefix.parse().ok()?, NextHopId(id.parse().ok()?)))
}

fn real_routes() -> Option<Vec<Route>> {
    let text = data("v6-ris-as3333-20260511.txt.xz")?;
    text.lines().map(|line| line.split_once(' ').and_then(|(prefix, id)| route(prefix, id))).collect()
}

fn synthetic_routes() -> Vec<Route> {
    let mut random = Random(7);
    let mut routes: Vec<Route> = Vec::new();
    let mut seen = HashSet::new();
    while routes.len() < 250_000 {
        let len = [48, 48, 48, 48, 48, 48, 48, 44, 44, 40, 36, 32, 32, 29][random.below(14)];
        let block = [0x2001, 0x2400, 0x2600, 0x2800, 0x2a00, 0x2a02, 0x2a0e, 0x2c0f][random.below(8)];
        let addr =
            block << 112 | (random.below(1 << 11) as u128) << 100 | (random.below(1 << 20) as u128) << 80;
        let prefix = Prefix6::from_bits(addr, len).expect("len <= 128");
        if seen.insert(prefix) {
            routes.push((prefix, NextHopId((256.0 * random.unit().powi(3)) as u32)));
        }
    }
    routes.sort_unstable();
    routes
}

fn wide(random: &mut Random) -> u128 {
    u128::from(random.next()) << 64 | u128::from(random.next())
}

fn workloads(routes: &[Route]) -> [(&'static str, Vec<u128>); 3] {
    let mut random = Random(42);
    let rand = (0..ADDRS).map(|_| 1 << 125 | wide(&mut random) >> 3).collect();
    let host = |random: &mut Random| {
        let (prefix, _) = routes[random.below(routes.len())];
        prefix.bits() | wide(random).checked_shr(prefix.len().into()).unwrap_or(0)
    };
    let pfx = (0..ADDRS).map(|_| host(&mut random)).collect();
    let flows: Vec<u128> = (0..65_536).map(|_| host(&mut random)).collect();
    let mut weights: Vec<f64> = (1..=flows.len()).map(|rank| 1.0 / rank as f64).collect();
    for at in 1..weights.len() {
        weights[at] += weights[at - 1];
    }
    let total = weights[weights.len() - 1];
    let mut zipf = Vec::with_capacity(ADDRS + 16);
    while zipf.len() < ADDRS {
        let drawn = random.unit() * total;
        let flow = flows[weights.partition_point(|sum| *sum < drawn).min(flows.len() - 1)];
        let train = 1 + random.below(8);
        zipf.extend(std::iter::repeat_n(flow, train));
    }
    zipf.truncate(ADDRS);
    [("rand", rand), ("pfx", pfx), ("zipf", zipf)]
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Million lookups a second over all addresses.
fn rate(addrs: &[u128], mut lookup: impl FnMut(&[u128; BATCH], &mut [u32; BATCH])) -> f64 {
    let mut out = [0; BATCH];
    let start = Instant::now();
    for batch in addrs.as_chunks::<BATCH>().0 {
        lookup(batch, &mut out);
        std::hint::black_box(&out);
    }
    addrs.len() as f64 / start.elapsed().as_secs_f64() / 1e6
}

/// The first yardstick: all keys where the answer may change, and what it is from there.
struct Bisection {
    starts: Vec<u64>,
    answers: Vec<u32>,
}

impl Bisection {
    fn new(routes: &[Route], fib: &Fib6Reader, domain: &Domain) -> Self {
        let mut starts = vec![0];
        for (prefix, _) in routes {
            let (first, span) =
                ((prefix.bits() >> 64) as u64, 1u64.checked_shl(64 - u32::from(prefix.len())));
            starts.push(first);
            starts.push(first.wrapping_add(span.unwrap_or(0)));
        }
        starts.sort_unstable();
        starts.dedup();
        let reader = domain.register("build");
        let answer = |start: &u64| fib.lookup(&reader, u128::from(*start) << 64).0;
        let answers = starts.iter().map(answer).collect();
        Self { starts, answers }
    }

    fn lookup(&self, addr: u128) -> u32 {
        let key = (addr >> 64) as u64;
        self.answers[self.starts.partition_point(|start| *start <= key) - 1]
    }
}

/// The second yardstick.
struct ByLength(Vec<(u8, HashMap<u64, u32>)>);

impl ByLength {
    fn new(routes: &[Route]) -> Self {
        let mut tables: Vec<_> = (0..=64).rev().map(|len| (len, HashMap::new())).collect();
        for (prefix, id) in routes {
            tables[64 - prefix.len() as usize].1.insert((prefix.bits() >> 64) as u64, id.0);
        }
        tables.retain(|(_, table)| !table.is_empty());
        Self(tables)
    }

    fn lookup(&self, addr: u128) -> u32 {
        let key = (addr >> 64) as u64;
        let mask = |len: u8| u64::MAX.checked_shl(64 - u32::from(len)).unwrap_or(0);
        let found = self.0.iter().find_map(|(len, table)| table.get(&(key & mask(*len))).copied());
        found.unwrap_or(NextHopId::NONE.0)
    }
}

fn lookups(routes: &[Route], fib: &Fib6Reader, domain: &Domain, loads: &[(&str, Vec<u128>)]) {
    let variants = [Variant::Avx512, Variant::Avx2, Variant::Plain];
    let fibs: Vec<_> = variants.into_iter().filter_map(|v| Some((v, fib.with_variant(v)?))).collect();
    let (bisection, by_length) = (Bisection::new(routes, fib, domain), ByLength::new(routes));
    let mut reader = domain.register("bench");
    println!("{:<16}{:>9}{:>8} {:>8} {:>9} {:>6}", "", "variant", "Mlps", "ns", "bisection", "ratio");
    for (name, addrs) in loads {
        assert!(addrs.iter().step_by(97).all(|addr| {
            let answer = fib.lookup(&reader, *addr).0;
            answer == bisection.lookup(*addr) && answer == by_length.lookup(*addr)
        }));
        let mut rates = vec![Vec::new(); fibs.len() + 2];
        for _ in 0..ROUNDS {
            for ((_, fib), rates) in fibs.iter().zip(&mut rates) {
                rates.push(rate(addrs, |batch, out| {
                    fib.lookup_batch(&reader, batch, out);
                    reader.quiescent();
                }));
            }
            let each = |find: &dyn Fn(u128) -> u32| {
                rate(addrs, |batch, out| {
                    out.iter_mut().zip(batch).for_each(|(out, addr)| *out = find(*addr));
                })
            };
            rates[fibs.len()].push(each(&|addr| bisection.lookup(addr)));
            rates[fibs.len() + 1].push(each(&|addr| by_length.lookup(addr)));
        }
        let medians: Vec<f64> = rates.iter_mut().map(|rates| median(rates)).collect();
        let yardstick = medians[fibs.len()];
        for ((variant, _), ours) in fibs.iter().zip(&medians) {
            let variant = format!("{variant:?}");
            println!(
                "fib6.mlps.{name:<6}{variant:>9}{ours:>8.1} {:>8.2} {yardstick:>9.1} {:>6.1}",
                1e3 / ours,
                ours / yardstick
            );
        }
        println!("  a hash table for each length: {:.1}", medians[fibs.len() + 1]);
    }
}

/// Rate of updates on an undisturbed table, and of lookups while `per_second` updates go on.
fn updates(writer: &mut Fib6Writer, changes: &[Change]) {
    let start = Instant::now();
    for (prefix, id) in changes {
        change(writer, *prefix, *id);
    }
    let seconds = start.elapsed().as_secs_f64();
    println!(
        "fib6.update_ns  {:>8.0}  ({:.0} updates/s, {} changes)",
        seconds * 1e9 / changes.len() as f64,
        changes.len() as f64 / seconds,
        changes.len()
    );
}

fn change(writer: &mut Fib6Writer, prefix: Prefix6, id: Option<NextHopId>) {
    match id {
        Some(id) => writer.insert(prefix, id).map(drop),
        None => writer.remove(prefix).map(drop),
    }
    .expect("room for the update");
}

/// One reader looking up all the time, one writer at a given pace (0: as fast as it can; none: idle).
fn together(writer: &mut Fib6Writer, changes: &[Change], addrs: &[u128], pace: Option<u64>) -> (f64, f64) {
    let domain = writer.reader().domain().clone();
    let fib = writer.reader();
    let (done, looked) = (AtomicBool::new(false), AtomicU64::new(0));
    let length = Duration::from_millis(700);
    let mut made = 0;
    let start = Instant::now();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut reader = domain.register("bench");
            let mut out = [0; BATCH];
            'all: loop {
                for batch in addrs.chunks_exact(BATCH) {
                    fib.lookup_batch(&reader, batch, &mut out);
                    std::hint::black_box(&out);
                    reader.quiescent();
                    looked.store(looked.load(Ordering::Relaxed) + BATCH as u64, Ordering::Relaxed);
                    if done.load(Ordering::Relaxed) {
                        break 'all;
                    }
                }
            }
        });
        let mut next = changes.iter().cycle();
        while start.elapsed() < length {
            let due = pace.map_or(0, |pace| match pace {
                0 => made + 64,
                pace => (start.elapsed().as_secs_f64() * pace as f64) as u64,
            });
            while made < due {
                let (prefix, id) = next.next().expect("an endless cycle");
                change(writer, *prefix, *id);
                made += 1;
            }
            if pace != Some(0) {
                std::hint::spin_loop();
            }
        }
        done.store(true, Ordering::Relaxed);
    });
    let seconds = start.elapsed().as_secs_f64();
    (looked.load(Ordering::Relaxed) as f64 / seconds / 1e6, made as f64 / seconds)
}

fn main() {
    let routes = real_routes().unwrap_or_else(|| {
        println!("shared/data is absent (or xz is): synthetic routes");
        synthetic_routes()
    });
    let domain = Domain::default();
    let mut writer = Fib6Writer::new(&domain).expect("memory");
    let (mut builds, mut commits) = (Vec::new(), Vec::new());
    for _ in 0..7 {
        writer.replace_all([]).expect("room");
        for times in [&mut builds, &mut commits] {
            let start = Instant::now();
            writer.replace_all(routes.iter().copied()).expect("room");
            times.push(start.elapsed().as_secs_f64() * 1e3);
        }
    }
    let memory = writer.memory();
    println!("routes          {:>8}", writer.len());
    println!("fib6.build_ms   {:>8.1}  (again: {:.1})", median(&mut builds), median(&mut commits));
    println!(
        "fib6.memory_mb  {:>8.2}  (RIB besides: {:.1})",
        memory.lookup_bytes as f64 / 1e6,
        memory.rib_bytes as f64 / 1e6
    );
    if std::env::args().any(|arg| arg == "build") {
        return;
    }
    let loads = workloads(&routes);
    lookups(&routes, &writer.reader(), &domain, &loads);
    if std::env::args().any(|arg| arg == "lookups") {
        return;
    }

    let Some(text) = data("v6-updates-as3333-20260511.txt.xz") else { return };
    let changes: Vec<Change> = text
        .lines()
        .filter_map(|line| {
            let mut words = line.split(' ').skip(1);
            let prefix = words.next()?.parse().ok()?;
            Some((prefix, words.next().and_then(|id| id.parse().ok()).map(NextHopId)))
        })
        .collect();
    updates(&mut writer, &changes);
    for size in [100, 1000] {
        let start = Instant::now();
        for changes in changes.chunks(size) {
            writer.commit(changes.iter().copied()).expect("room");
        }
        let rate = changes.len() as f64 / start.elapsed().as_secs_f64();
        println!("in commits of {size:<4} {rate:>10.0} updates/s");
    }
    let after = writer.memory();
    println!(
        "after updates   {:>8.2} MB, {:.2} MB spare",
        after.lookup_bytes as f64 / 1e6,
        after.spare_bytes as f64 / 1e6
    );
    let mut idle = Vec::new();
    let mut paced = Vec::new();
    let mut full = Vec::new();
    let mut made = Vec::new();
    for _ in 0..5 {
        idle.push(together(&mut writer, &changes, &loads[1].1, None).0);
        paced.push(together(&mut writer, &changes, &loads[1].1, Some(10_000)).0);
        let (looked, updates) = together(&mut writer, &changes, &loads[1].1, Some(0));
        full.push(looked);
        made.push(updates);
    }
    let idle = median(&mut idle);
    println!(
        "pfx undisturbed {idle:>8.1}, at 10,000 updates/s {:.1}, share {:.3}",
        median(&mut paced),
        median(&mut paced) / idle
    );
    println!(
        "pfx at {:.0} updates/s: {:.1}, share {:.3}",
        median(&mut made),
        median(&mut full),
        median(&mut full) / idle
    );
}
