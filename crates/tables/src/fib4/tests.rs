// SPDX-License-Identifier: MIT OR Apache-2.0
//! The table against a linear scan.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, Ordering};
use sync::rcu::{Domain, Reader};
use wire::addr::mask4;

type Routes = BTreeMap<Prefix4, u32>;

fn prefix(text: &str) -> Prefix4 {
    text.parse().expect("a prefix")
}

fn addr(text: &str) -> u32 {
    text.parse::<Ipv4Addr>().expect("an address").into()
}

/// The oracle: look at every route.
fn scan(routes: &Routes, addr: u32) -> Option<(Prefix4, u32)> {
    let matching = routes.iter().filter(|(prefix, _)| prefix.contains(addr.into()));
    matching.max_by_key(|(prefix, _)| prefix.len()).map(|(prefix, id)| (*prefix, *id))
}

/// Addresses where answers may change: the ends of every route, and their neighbours.
fn edges(routes: &Routes) -> Vec<u32> {
    let ends = routes.keys().flat_map(|p| [p.bits(), p.bits() | !mask4(p.len())]);
    ends.flat_map(|end| [end.wrapping_sub(1), end, end.wrapping_add(1)]).chain([0, u32::MAX]).collect()
}

fn check(writer: &Fib4Writer, reader: &Reader, routes: &Routes, addrs: &[u32]) {
    let fib = writer.reader();
    let want: Vec<_> = addrs.iter().map(|addr| scan(routes, *addr)).collect();
    let mut got = vec![0; addrs.len()];
    fib.lookup_batch(reader, addrs, &mut got);
    let mut plain = vec![0; addrs.len()];
    #[allow(unsafe_code)]
    // SAFETY: `reader` is of this table's domain.
    unsafe {
        writer.shared.walk.batches(addrs, &mut plain);
    }
    for (at, (addr, want)) in addrs.iter().zip(&want).enumerate() {
        let id = want.map_or(NextHopId::NONE, |(_, id)| NextHopId(id));
        let shown = Ipv4Addr::from(*addr);
        assert_eq!((NextHopId(got[at]), NextHopId(plain[at])), (id, id), "batch lookup of {shown}");
        assert_eq!(fib.lookup(reader, *addr), id, "lookup of {shown}");
        assert_eq!(
            writer.longest_match(*addr),
            want.map(|(p, id)| (p, NextHopId(id))),
            "RIB match of {shown}"
        );
    }
    assert_eq!(writer.len(), routes.len());
    assert_eq!(writer.iter().map(|(p, id)| (p, id.0)).collect::<Routes>(), *routes);
    for pair in addrs.chunks_exact(2).take(16) {
        let (from, to) = (pair[0].min(pair[1]), pair[0].max(pair[1]));
        let within = routes.iter().filter(|(p, _)| (from..=to).contains(&p.bits()));
        let within: Routes = within.map(|(p, id)| (*p, *id)).collect();
        let found: Vec<_> = writer.range(from, to).map(|(p, id)| (p, id.0)).collect();
        assert_eq!((found.len(), found.into_iter().collect::<Routes>()), (within.len(), within));
    }
}

fn arb_prefix() -> impl Strategy<Value = Prefix4> {
    // Few /16s and few bits, so that routes nest, touch and repeat.
    let addr = (0u32..3, 0u32..4, 0u32..8, any::<u8>()).prop_map(|(a, b, c, d)| {
        [0x0a00_0000, 0x0aff_0000, 0xffff_0000][a as usize] | b << 16 | ((c * 37) & 0xff) << 8 | u32::from(d)
    });
    let len = prop_oneof![0u8..=32, 14u8..=18, 22u8..=27, Just(32)];
    (addr, len).prop_map(|(addr, len)| Prefix4::from_bits(addr, len).expect("len <= 32"))
}

#[derive(Clone, Debug)]
enum Op {
    Insert(Prefix4, u32),
    Remove(Prefix4),
    RemoveNth(usize),
    Commit(Vec<(Prefix4, Option<u32>)>),
    ReplaceAll(Vec<(Prefix4, u32)>),
    Quiescent,
}

fn arb_ops() -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        8 => (arb_prefix(), 0u32..5).prop_map(|(p, id)| Op::Insert(p, id)),
        1 => arb_prefix().prop_map(Op::Remove),
        4 => any::<usize>().prop_map(Op::RemoveNth),
        2 => prop::collection::vec((arb_prefix(), prop::option::of(0u32..5)), 0..20).prop_map(Op::Commit),
        1 => prop::collection::vec((arb_prefix(), 0u32..5), 0..20).prop_map(Op::ReplaceAll),
        2 => Just(Op::Quiescent),
    ];
    prop::collection::vec(op, 1..24)
}

fn apply(
    op: &Op,
    writer: &mut Fib4Writer,
    reader: &mut Reader,
    routes: &mut Routes,
) -> Result<(), Fib4Error> {
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
        Op::Commit(changes) => {
            let given: Vec<Change> = changes.iter().map(|(p, id)| (*p, id.map(NextHopId))).collect();
            let found = writer.commit(&given)?;
            for ((prefix, id), found) in changes.iter().zip(found) {
                let old = match id {
                    Some(id) => routes.insert(*prefix, *id),
                    None => routes.remove(prefix),
                };
                assert_eq!(found.map(|id| id.0), old);
            }
        }
        Op::ReplaceAll(all) => {
            writer.replace_all(all.iter().map(|(p, id)| (*p, NextHopId(*id))))?;
            *routes = all.iter().copied().collect();
        }
        Op::Quiescent => reader.quiescent(),
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..Default::default() })]
    #[test]
    fn equals_a_linear_scan(ops in arb_ops(), addrs in prop::collection::vec(any::<u32>(), 0..40)) {
        let domain = Domain::default();
        let mut reader = domain.register("test");
        let mut writer = Fib4Writer::with_lines(&domain, 1 << 16).expect("memory");
        let mut routes = Routes::new();
        for op in &ops {
            apply(op, &mut writer, &mut reader, &mut routes).expect("room");
            let addrs: Vec<_> = edges(&routes).into_iter().chain(addrs.iter().copied()).collect();
            check(&writer, &reader, &routes, &addrs);
        }
        // With every route gone nothing but the one shared object is in use.
        writer.replace_all([]).expect("room");
        prop_assert_eq!(writer.arena.used(), 1);
    }

    /// In a table far too small, each update either happens or changes nothing.
    #[test]
    fn a_failed_update_changes_nothing(ops in arb_ops(), lines in 1usize..40) {
        let domain = Domain::default();
        let mut reader = domain.register("test");
        let mut writer = Fib4Writer::with_lines(&domain, lines).expect("memory");
        let mut routes = Routes::new();
        for op in &ops {
            if let Err(error) = apply(op, &mut writer, &mut reader, &mut routes) {
                prop_assert!(matches!(error, Fib4Error::Full { .. } | Fib4Error::Stalled { .. }), "{}", error);
            }
            check(&writer, &reader, &routes, &edges(&routes));
        }
    }
}

#[test]
fn every_length_and_every_place() {
    let domain = Domain::default();
    let reader = domain.register("test");
    let mut writer = Fib4Writer::new(&domain).expect("memory");
    let mut routes = Routes::new();
    // A comb with every length nested, and every /24 and every /32 of one block different from its neighbours.
    for len in 0..=32 {
        let prefix = Prefix4::from_bits(addr("172.20.255.255"), len).expect("len <= 32");
        routes.insert(prefix, u32::from(len));
    }
    for octet in 0..256 {
        routes.insert(Prefix4::from_bits(addr("192.168.0.0") | octet << 8, 24).expect("24"), 100 + octet);
        routes.insert(
            Prefix4::from_bits(addr("192.168.77.0") | octet, 32).expect("32"),
            NextHopId::MAX.0 - octet,
        );
    }
    for (prefix, id) in &routes {
        assert_eq!(writer.insert(*prefix, NextHopId(*id)).expect("room"), None);
    }
    check(&writer, &reader, &routes, &edges(&routes));
    let one_by_one = writer.memory();
    writer.replace_all(routes.iter().map(|(p, id)| (*p, NextHopId(*id)))).expect("room");
    check(&writer, &reader, &routes, &edges(&routes));
    assert_eq!(writer.memory().lookup_bytes, one_by_one.lookup_bytes);
}

#[test]
fn the_largest_object_fits() {
    let domain = Domain::default();
    let reader = domain.register("test");
    let mut writer = Fib4Writer::with_lines(&domain, 4096).expect("memory");
    let base = addr("10.1.0.0");
    writer
        .replace_all(
            (0..1 << 16).map(|i| (Prefix4::from_bits(base | i, 32).expect("32"), NextHopId(i % 30_011))),
        )
        .expect("room");
    assert_eq!(writer.arena.used(), 1 + 9 + 256 * 9);
    let fib = writer.reader();
    assert!((0..1 << 16).all(|i| fib.lookup(&reader, base | i) == NextHopId(i % 30_011)));
}

#[test]
fn refuses_ids_out_of_range() {
    let mut writer = Fib4Writer::with_lines(&Domain::default(), 64).expect("memory");
    for id in [NextHopId(32_767), NextHopId(65_536), NextHopId::NONE] {
        let error = writer.insert(prefix("10.0.0.0/8"), id).expect_err("out of range");
        assert!(error.to_string().contains("ids go from 0 to 32766"), "{error}");
        assert!(writer.replace_all([(prefix("10.0.0.0/8"), id)]).is_err());
    }
    assert!(writer.is_empty());
    assert!(writer.insert(prefix("10.0.0.0/8"), NextHopId::MAX).is_ok());
}

#[test]
#[should_panic(expected = "another domain")]
fn refuses_a_foreign_reader() {
    let fib = Fib4Writer::with_lines(&Domain::default(), 64).expect("memory").reader();
    fib.lookup(&Domain::default().register("foreign"), 0);
}

/// Readers look up while the writer flips routes between two known states; each answer must be of one of them. The
/// table is small, so lines are reused all the time.
#[test]
fn churn_under_readers() {
    let domain = Domain::default();
    let mut writer = Fib4Writer::with_lines(&domain, 160).expect("memory");
    // Flipping a route changes an object's size: both of its forms have runs that the other has not.
    let stable: Vec<Prefix4> =
        (0..40).map(|i| Prefix4::from_bits(addr("10.0.0.0") | i << 9, 24).expect("24")).collect();
    let flipping: Vec<Prefix4> = (0..40)
        .map(|i| {
            Prefix4::from_bits(addr("10.0.1.128") | i << 9, if i % 3 == 0 { 25 } else { 24 }).expect("length")
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
                let addrs: Vec<u32> = stable.iter().chain(flipping).map(|p| p.bits()).collect();
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
                    Err(Fib4Error::Stalled { .. }) => refused += 1,
                    Err(error) => panic!("{error}"),
                }
                std::thread::yield_now();
            }
        }
        done.store(true, Ordering::Relaxed);
        eprintln!("{refused} updates had to wait for readers");
    });
}
