// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every interleaving of one reader and one writer. Run it with
//! `RUSTFLAGS="--cfg loom" cargo test -p junctor-tables --release --target-dir target/loom --lib next_hop`.

use super::*;
use loom::thread;

/// A route moves from hop "a" to hop "c", which takes a's number when nobody can hold it. Stand-in for the
/// forwarding table: a cell with the id, published with Release and read with Acquire as a leaf is.
#[test]
fn an_id_means_what_its_route_meant() {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(|| {
        let domain = Domain::default();
        let mut hops = NextHops::new(&domain, 2);
        let a = hops.intern("a").unwrap();
        let b = hops.intern("b").unwrap();
        hops.publish().unwrap();
        let routes = Arc::new(rcu::Cell::new(&domain, (a, "a")));
        let (their_routes, their_hops) = (routes.clone(), hops.reader());
        let mut reader = domain.register("r");
        let reading = thread::spawn(move || {
            for _ in 0..2 {
                let (id, meaning) = *their_routes.read(&reader);
                assert_eq!(their_hops.read(&reader).resolve(id, || 0), Some(&meaning));
                reader.quiescent();
            }
        });
        assert!(routes.publish((b, "b")).is_ok());
        hops.release(a);
        if let Ok(c) = hops.intern("c") {
            hops.publish().unwrap();
            assert!(routes.publish((c, "c")).is_ok());
        }
        reading.join().unwrap();
    });
}
