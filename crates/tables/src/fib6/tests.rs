// SPDX-License-Identifier: MIT OR Apache-2.0
//! The table against a linear scan.

use super::{
    sweep::{Fill, MARKER},
    writer::{SIZES, Sizes, upper},
    *,
};
use proptest::prelude::*;
use std::{
    collections::BTreeMap,
    net::Ipv6Addr,
    sync::atomic::{AtomicBool, Ordering},
};
use sync::rcu::{Domain, Reader};
use wire::addr::mask6;

type Routes = BTreeMap<Prefix6, u32>;

fn prefix(text: &str) -> Prefix6 {
    text.parse().expect("a prefix")
}

fn addr(text: &str) -> u128 {
    text.parse::<Ipv6Addr>().expect("an address").into()
}

/// A writer whose chunks are so small that few routes make many.
fn small(domain: &Domain, lines: usize) -> Fib6Writer {
    let mut writer = Fib6Writer::with_lines(domain, lines).expect("memory");
    writer.sizes =
        Sizes { full: Fill { routes: 6, runs: 5 }, fresh: Fill { routes: 4, runs: 3 }, few_routes: 3 };
    writer
}

/// The oracle: look at every route.
fn scan(routes: &Routes, addr: u128) -> Option<(Prefix6, u32)> {
    let matching = routes.iter().filter(|(prefix, _)| prefix.contains(addr.into()));
    matching.max_by_key(|(prefix, _)| prefix.len()).map(|(prefix, id)| (*prefix, *id))
}

/// Addresses where answers may change: the ends of every route, and their neighbours.
fn edges(routes: &Routes) -> Vec<u128> {
    let ends = routes.keys().flat_map(|p| [p.bits(), p.bits() | !mask6(p.len())]);
    ends.flat_map(|end| [end.wrapping_sub(1), end, end.wrapping_add(1)]).chain([0, u128::MAX]).collect()
}

/// The table's answers to `addrs` by all variants, its list of routes and its own account of itself are those of `routes`.
fn check(writer: &Fib6Writer, reader: &Reader, routes: &Routes, addrs: &[u128]) {
    let fib = writer.reader();
    let want: Vec<_> = addrs.iter().map(|addr| scan(routes, *addr)).collect();
    for variant in [Variant::Plain, Variant::Avx2, Variant::Avx512] {
        let Some(fib) = fib.with_variant(variant) else { continue };
        let mut got = vec![0; addrs.len()];
        fib.lookup_batch(reader, addrs, &mut got);
        for ((addr, want), got) in addrs.iter().zip(&want).zip(got) {
            let id = want.map_or(NextHopId::NONE, |(_, id)| NextHopId(id));
            assert_eq!(NextHopId(got), id, "{variant:?} lookup of {}", Ipv6Addr::from(*addr));
        }
    }
    for (addr, want) in addrs.iter().zip(&want) {
        let want = want.map(|(p, id)| (p, NextHopId(id)));
        assert_eq!(fib.lookup(reader, *addr), want.map_or(NextHopId::NONE, |(_, id)| id));
        assert_eq!(writer.longest_match(*addr), want, "RIB match of {}", Ipv6Addr::from(*addr));
    }
    let listed: Vec<_> = writer.iter().map(|(p, id)| (p, id.0)).collect();
    assert_eq!(listed, routes.iter().map(|(p, id)| (*p, *id)).collect::<Vec<_>>());
    assert!(routes.iter().all(|(prefix, id)| writer.get(*prefix) == Some(NextHopId(*id))));
    assert_eq!(writer.len(), routes.len());
    for pair in addrs.chunks_exact(2).take(16) {
        let [from, to] = [pair[0].min(pair[1]), pair[0].max(pair[1])].map(|addr| (addr >> 64) as u64);
        let within = listed.iter().filter(|(p, _)| (from..=to).contains(&upper(*p))).copied();
        let found = writer.range(from, to).map(|(p, id)| (p, id.0));
        assert_eq!(found.collect::<Vec<_>>(), within.collect::<Vec<_>>());
    }
    check_form(writer);
}

/// Invariant 5, covers, and that no line is lost.
fn check_form(writer: &Fib6Writer) {
    let mut lines = 0;
    for (at, chunk) in writer.chunks.iter().enumerate() {
        let last = writer.chunks.get(at + 1).map_or(u64::MAX, |next| next.start - 1);
        assert!(if at == 0 { chunk.start == 0 } else { chunk.start <= last });
        assert!(chunk.routes.is_sorted_by(|a, b| a.order() < b.order()));
        assert!(chunk.routes.iter().all(|route| (chunk.start..=last).contains(&{ route.key })));
        let above = |key: u64| (key >> chunk.block.shift) >> 32;
        assert_eq!(above(chunk.start), above(last), "the chunk at {:x}", chunk.start);
        let before = writer.chunks[..at].iter().flat_map(|chunk| &*chunk.routes);
        let covers: Vec<_> = before.filter(|r| r.len != MARKER && r.contains(chunk.start)).copied().collect();
        assert_eq!(chunk.covers, covers, "covers of {:x}", chunk.start);
        assert_eq!(writer.slots[at].load(Ordering::Relaxed), chunk.block.slot().0);
        lines += usize::from(chunk.block.lines);
    }
    assert_eq!((writer.slots.len(), writer.arena.used()), (writer.chunks.len(), lines));
}

fn arb_prefix() -> impl Strategy<Value = Prefix6> {
    // Few places and few bits, so that routes nest, touch and repeat; the ends of the address space, too.
    let place = prop::sample::select(vec![
        0,
        addr("2001:db8::"),
        addr("2001:db8:0:ff00::"),
        addr("ffff:ffff:ffff:fff0::"),
    ]);
    let low = prop::sample::select(vec![0, 1, 2, 255, 1 << 63, u64::MAX - 1, u64::MAX]);
    let addr = (place, 0u128..20, 0u128..4, low)
        .prop_map(|(place, net, site, low)| place | site << 80 | net << 64 | u128::from(low));
    let len = prop_oneof![0u8..=128, 44u8..=52, 58u8..=64, Just(64), 65u8..=70, 120u8..=128, Just(128)];
    (addr, len).prop_map(|(addr, len)| Prefix6::from_bits(addr, len).expect("len <= 128"))
}

#[derive(Clone, Debug)]
enum Op {
    Insert(Prefix6, u32),
    Remove(Prefix6),
    RemoveNth(usize),
    ReplaceAll(Vec<(Prefix6, u32)>),
    Commit(Vec<(Prefix6, Option<u32>)>),
    Quiescent,
}

fn arb_ops() -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        8 => (arb_prefix(), 0u32..5).prop_map(|(p, id)| Op::Insert(p, id)),
        1 => arb_prefix().prop_map(Op::Remove),
        4 => any::<usize>().prop_map(Op::RemoveNth),
        1 => prop::collection::vec((arb_prefix(), 0u32..5), 0..20).prop_map(Op::ReplaceAll),
        2 => prop::collection::vec((arb_prefix(), prop::option::of(0u32..5)), 0..20).prop_map(Op::Commit),
        2 => Just(Op::Quiescent),
    ];
    prop::collection::vec(op, 1..24)
}

fn apply(
    op: &Op,
    writer: &mut Fib6Writer,
    reader: &mut Reader,
    routes: &mut Routes,
) -> Result<(), Fib6Error> {
    match op {
        Op::Insert(prefix, id) => {
            let old = writer.insert(*prefix, NextHopId(*id))?;
            assert_eq!(old.map(|id| id.0), routes.insert(*prefix, *id));
        }
        Op::Remove(prefix) => {
            let old = writer.remove(*prefix)?;
            assert_eq!(old.map(|id| id.0), routes.remove(prefix));
        }
        Op::RemoveNth(n) => {
            if let Some(prefix) = routes.keys().nth(n % routes.len().max(1)).copied() {
                return apply(&Op::Remove(prefix), writer, reader, routes);
            }
        }
        Op::ReplaceAll(all) => {
            writer.replace_all(all.iter().map(|(p, id)| (*p, NextHopId(*id))))?;
            *routes = all.iter().copied().collect();
        }
        Op::Commit(changes) => {
            writer.commit(changes.iter().map(|(p, id)| (*p, id.map(NextHopId))))?;
            for (prefix, id) in changes {
                match id {
                    Some(id) => routes.insert(*prefix, *id),
                    None => routes.remove(prefix),
                };
            }
        }
        Op::Quiescent => reader.quiescent(),
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..Default::default() })]
    #[test]
    fn equals_a_linear_scan(ops in arb_ops(), addrs in prop::collection::vec(any::<u128>(), 0..40), tiny in any::<bool>()) {
        let domain = Domain::default();
        let mut reader = domain.register("test");
        let mut writer = small(&domain, 1 << 12);
        if !tiny {
            writer.sizes = SIZES;
        }
        let mut routes = Routes::new();
        for op in &ops {
            apply(op, &mut writer, &mut reader, &mut routes).expect("room");
            let addrs: Vec<_> = edges(&routes).into_iter().chain(addrs.iter().copied()).collect();
            check(&writer, &reader, &routes, &addrs);
        }
        // With every route gone nothing but one empty chunk is in use.
        writer.replace_all([]).expect("room");
        prop_assert_eq!((writer.arena.used(), writer.divided.list_bytes()), (2, 0));
    }

    /// In a table far too small, each update either happens or changes nothing.
    #[test]
    fn a_failed_update_changes_nothing(ops in arb_ops(), lines in 2usize..40) {
        let domain = Domain::new(sync::rcu::Limits { objects: 3, bytes: 1 << 20 });
        let mut reader = domain.register("test");
        let mut writer = small(&domain, lines);
        let mut routes = Routes::new();
        for op in &ops {
            if let Err(error) = apply(op, &mut writer, &mut reader, &mut routes) {
                prop_assert!(matches!(error, Fib6Error::Full { .. } | Fib6Error::Stalled { .. }), "{}", error);
            }
            check(&writer, &reader, &routes, &edges(&routes));
        }
    }
}

#[test]
fn every_length_and_every_place() {
    let domain = Domain::default();
    let reader = domain.register("test");
    let mut writer = Fib6Writer::new(&domain).expect("memory");
    let mut routes = Routes::new();
    // A comb with every length nested, and blocks of /48s, /64s and /128s different from their neighbours.
    for len in 0..=128 {
        let prefix =
            Prefix6::from_bits(addr("2a00:db8:ffff:ffff:ffff:ffff:ffff:ffff"), len).expect("len <= 128");
        routes.insert(prefix, u32::from(len));
    }
    for at in 0..300 {
        routes.insert(Prefix6::from_bits(addr("2001:db8::") | at << 80, 48).expect("48"), 200 + at as u32);
        routes.insert(Prefix6::from_bits(addr("2001:db8:7::") | at << 64, 64).expect("64"), 600 + at as u32);
        routes.insert(
            Prefix6::from_bits(addr("2001:db8:7:7::") | at, 128).expect("128"),
            NextHopId::MAX.0 - at as u32,
        );
    }
    for (prefix, id) in &routes {
        assert_eq!(writer.insert(*prefix, NextHopId(*id)).expect("room"), None);
    }
    let addrs = edges(&routes);
    check(&writer, &reader, &routes, &addrs);
    let replace = |writer: &mut Fib6Writer| {
        writer.replace_all(routes.iter().map(|(p, id)| (*p, NextHopId(*id)))).expect("room");
    };
    replace(&mut writer);
    check(&writer, &reader, &routes, &addrs);
    let at_once = writer.memory().lookup_bytes;
    for (prefix, id) in &routes {
        assert_eq!(writer.remove(*prefix).expect("room"), Some(NextHopId(*id)));
    }
    check(&writer, &reader, &Routes::new(), &addrs);
    assert!(writer.chunks.len() < 10, "chunks that become small are joined");
    replace(&mut writer);
    assert_eq!(writer.memory().lookup_bytes, at_once);
}

/// Tables of one shape each, made at once and route by route, then taken down.
#[test]
fn shapes_of_tables() {
    let at = |text: &str, len: u8, step: u32, count: u128| {
        let first = addr(text);
        (0..count).map(move |n| Prefix6::from_bits(first + (n << step), len).expect("len <= 128"))
    };
    let default = || at("::", 0, 0, 1);
    let shapes: [(&str, Vec<Prefix6>); 9] = [
        ("the default route alone", default().collect()),
        ("halves and quarters", at("::", 1, 127, 2).chain(at("::", 2, 126, 4)).collect()),
        ("one address", at("2001:db8::1", 128, 0, 1).collect()),
        (
            "the first and the last",
            at("::", 128, 0, 1).chain(at("ffff:ffff:ffff:ffff::", 64, 0, 1)).collect(),
        ),
        ("one first cell", default().chain(at("2a0e:b107::", 48, 80, 300)).collect()),
        ("one /48", at("2001:db8::", 32, 0, 1).chain(at("2001:db8:5::", 64, 64, 300)).collect()),
        (
            "many first cells",
            default().chain(at("2000::", 16, 112, 200)).chain(at("2001:db8::", 32, 96, 50)).collect(),
        ),
        (
            "links",
            default().chain(at("2001:db8::", 64, 64, 20)).chain(at("2001:db8::1", 128, 64, 20)).collect(),
        ),
        ("hosts of one link", at("fd00::", 64, 0, 1).chain(at("fd00::1", 128, 1, 200)).collect()),
    ];
    for (name, prefixes) in shapes {
        eprintln!("{name}");
        let domain = Domain::default();
        let mut reader = domain.register("test");
        let mut writer = Fib6Writer::new(&domain).expect("memory");
        let all: Routes = prefixes.iter().copied().zip(0..).collect();
        let addrs = edges(&all);
        writer.replace_all(all.iter().map(|(p, id)| (*p, NextHopId(*id)))).expect("room");
        check(&writer, &reader, &all, &addrs);
        let mut routes = Routes::new();
        writer.replace_all([]).expect("room");
        for (at, (prefix, id)) in all.iter().enumerate() {
            writer.insert(*prefix, NextHopId(*id)).expect("room");
            routes.insert(*prefix, *id);
            if at % 50 == 7 {
                check(&writer, &reader, &routes, &addrs);
            }
            reader.quiescent();
        }
        check(&writer, &reader, &all, &addrs);
        writer.commit(prefixes.iter().step_by(2).map(|prefix| (*prefix, None))).expect("room");
        prefixes.iter().step_by(2).for_each(|prefix| _ = routes.remove(prefix));
        check(&writer, &reader, &routes, &addrs);
    }
}

/// Lone /64s far apart: the worst case for 32-bit keys.
#[test]
fn scattered_routes() {
    let domain = Domain::default();
    let reader = domain.register("test");
    let mut writer = Fib6Writer::new(&domain).expect("memory");
    let mut routes = Routes::new();
    for at in 0..300u128 {
        let addr = at.wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
        routes.insert(Prefix6::from_bits(addr, 60 + (at % 5) as u8).expect("64"), at as u32);
        writer
            .insert(Prefix6::from_bits(addr, 60 + (at % 5) as u8).expect("64"), NextHopId(at as u32))
            .expect("room");
    }
    check(&writer, &reader, &routes, &edges(&routes));
    // Besides the first cells, which every table has.
    let each = (writer.memory().lookup_bytes - (4 << 16)) / 300;
    assert!(each < 600, "{each} bytes for each route: {:?}", writer.memory());
}

#[test]
fn refuses_ids_out_of_range() {
    let mut writer = Fib6Writer::with_lines(&Domain::default(), 64).expect("memory");
    for id in [NextHopId(32_767), NextHopId(65_536), NextHopId::NONE] {
        let error = writer.insert(prefix("2001::/16"), id).expect_err("out of range");
        assert!(error.to_string().contains("ids go from 0 to 32766"), "{error}");
        assert!(writer.replace_all([(prefix("2001::/16"), id)]).is_err());
    }
    assert!(writer.is_empty());
    assert!(writer.insert(prefix("2001::/16"), NextHopId::MAX).is_ok());
}

#[test]
#[should_panic(expected = "another domain")]
fn refuses_a_foreign_reader() {
    let fib = Fib6Writer::with_lines(&Domain::default(), 64).expect("memory").reader();
    fib.lookup(&Domain::default().register("foreign"), 0);
}

/// Readers look up while the writer flips routes between two known states; each answer must be of one of them. The
/// table is small, so that lines are reused all the time.
#[test]
fn churn_under_readers() {
    let domain = Domain::default();
    let mut writer = Fib6Writer::with_lines(&domain, 120).expect("memory");
    writer.sizes.full.runs = 20;
    writer.sizes.fresh.runs = 11;
    // Every third flip divides a /64 or ends that, which replaces the top.
    let stable: Vec<Prefix6> =
        (0..40).map(|i| Prefix6::from_bits(addr("2001:db8::") | i << 81, 48).expect("48")).collect();
    let flipping: Vec<Prefix6> = (0..40)
        .map(|i| {
            Prefix6::from_bits(addr("2001:db8:1:8000::") | i << 81, [48, 49, 65][i as usize % 3])
                .expect("length")
        })
        .collect();
    for (id, prefix) in stable.iter().enumerate() {
        writer.insert(*prefix, NextHopId(id as u32)).expect("room");
    }
    let fib = writer.reader();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for id in 0..2 {
            let (fib, domain, done, stable, flipping) = (fib.clone(), &domain, &done, &stable, &flipping);
            scope.spawn(move || {
                let mut reader = domain.register(format!("reader {id}"));
                let addrs: Vec<u128> = stable.iter().chain(flipping).map(|p| p.bits()).collect();
                let mut out = vec![0; addrs.len()];
                while !done.load(Ordering::Relaxed) {
                    fib.lookup_batch(&reader, &addrs, &mut out);
                    let (fixed, flip) = out.split_at(stable.len());
                    assert!(fixed.iter().enumerate().all(|(id, got)| *got == id as u32), "{fixed:?}");
                    let either =
                        |(id, got): (usize, &u32)| [NextHopId::NONE.0, 1000 + id as u32].contains(got);
                    assert!(flip.iter().enumerate().all(either), "{flip:?}");
                    reader.quiescent();
                }
            });
        }
        let mut refused = 0;
        for turn in 0..4000usize {
            let at = turn * 7 % flipping.len();
            loop {
                let done = match writer.get(flipping[at]) {
                    Some(_) => writer.remove(flipping[at]).map(|_| ()),
                    None => writer.insert(flipping[at], NextHopId(1000 + at as u32)).map(|_| ()),
                };
                match done {
                    Ok(()) => break,
                    Err(Fib6Error::Stalled { .. }) => refused += 1,
                    Err(error) => panic!("{error}"),
                }
                std::thread::yield_now();
            }
        }
        done.store(true, Ordering::Relaxed);
        eprintln!("{refused} updates had to wait for readers");
    });
}

/// The text of a file in `shared/data` next to the repository, if there is one.
fn data(name: &str) -> Option<String> {
    let from = std::path::PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let path = from.ancestors().map(|dir| dir.join("shared/data").join(name)).find(|path| path.exists())?;
    let out = std::process::Command::new("xz").arg("-dc").arg(path).output().ok()?;
    String::from_utf8(out.stdout).ok().filter(|text| !text.is_empty())
}

/// RIPE RIS routes and updates of a day: against a linear scan at some addresses, and as a list.
#[test]
fn the_real_table_and_its_updates() {
    let files = (data("v6-ris-as3333-20260511.txt.xz"), data("v6-updates-as3333-20260511.txt.xz"));
    let (Some(table), Some(updates)) = files else {
        eprintln!("skipped: shared/data or xz is absent");
        return;
    };
    let id = |text: &str| text.parse::<u32>().expect("an id");
    let routes = table.lines().filter_map(|line| line.split_once(' '));
    let mut routes: Routes = routes.map(|(prefix_, hop)| (prefix(prefix_), id(hop))).collect();
    let domain = Domain::default();
    let mut reader = domain.register("test");
    let mut writer = Fib6Writer::new(&domain).expect("memory");
    writer.replace_all(routes.iter().map(|(p, id)| (*p, NextHopId(*id)))).expect("room");
    assert!(writer.memory().lookup_bytes < 4_000_000, "{:?}", writer.memory());

    let changes: Vec<(Prefix6, Option<u32>)> = updates
        .lines()
        .take(if cfg!(debug_assertions) { 150_000 } else { usize::MAX })
        .map(|line| {
            let mut words = line.split(' ').skip(1);
            (prefix(words.next().expect("a prefix")), words.next().map(id))
        })
        .collect();
    let (singly, together) = changes.split_at(changes.len() / 3);
    for (prefix, id) in singly {
        match id {
            Some(id) => writer.insert(*prefix, NextHopId(*id)).expect("room"),
            None => writer.remove(*prefix).expect("room"),
        };
        reader.quiescent();
    }
    for changes in together.chunks(1000) {
        writer.commit(changes.iter().map(|(p, id)| (*p, id.map(NextHopId)))).expect("room");
        reader.quiescent();
    }
    for (prefix, id) in &changes {
        match id {
            Some(id) => routes.insert(*prefix, *id),
            None => routes.remove(prefix),
        };
    }
    assert!(writer.iter().map(|(p, id)| (p, id.0)).eq(routes.iter().map(|(p, id)| (*p, *id))));

    let fib = writer.reader();
    for prefix in routes.keys().step_by(7777) {
        let end = prefix.bits() | !mask6(prefix.len());
        for addr in [prefix.bits(), end, end.wrapping_add(1)] {
            let want = scan(&routes, addr).map_or(NextHopId::NONE, |(_, id)| NextHopId(id));
            assert_eq!(fib.lookup(&reader, addr), want, "lookup of {}", Ipv6Addr::from(addr));
        }
    }
}
