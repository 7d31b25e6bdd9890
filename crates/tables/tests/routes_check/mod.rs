// SPDX-License-Identifier: MIT OR Apache-2.0
//! What holds for any bytes read as a route file; shared with the fuzz target `routes`.

use junctor_tables::{
    fib4::NextHopId,
    routes::{Form, Hop, Options, Routes, ip_route, text},
};
use wire::Prefix;

/// Reads `data` in every form.
pub fn check(data: &[u8]) {
    for form in [None, Some(Form::Text), Some(Form::IpRoute), Some(Form::Mrt)] {
        let mut routes = Routes::default();
        match routes.read("input", &mut &data[..], &Options { form, ..Options::default() }) {
            Ok(()) => written_and_read(&routes),
            Err(error) => {
                assert!(routes.is_empty() && routes.hops.is_empty() && routes.skipped.is_empty());
                assert!(error.to_string().starts_with("input:"));
            }
        }
    }
}

/// All routes with their next hops. A multipath of one leg is written as that leg alone, so its weight does not last.
fn all(routes: &Routes) -> Vec<(Prefix, Hop)> {
    let v4 = routes.v4.iter().map(|(prefix, id)| (Prefix::V4(*prefix), *id));
    let v6 = routes.v6.iter().map(|(prefix, id)| (Prefix::V6(*prefix), *id));
    let hop = |id: NextHopId| match routes.hops.get(id).expect("a known hop").clone() {
        Hop::Legs(mut legs) if legs.len() == 1 => {
            legs[0].weight = 1;
            Hop::Legs(legs)
        }
        hop => hop,
    };
    v4.chain(v6).map(|(prefix, id)| (prefix, hop(id))).collect()
}

fn written_and_read(routes: &Routes) {
    let mut out = Vec::new();
    let writer = text::Writer::new(&routes.hops);
    writer.begin(&mut out).expect("memory");
    let ids = routes.v4.iter().map(|(prefix, id)| (Prefix::V4(*prefix), *id));
    for (prefix, id) in ids.chain(routes.v6.iter().map(|(prefix, id)| (Prefix::V6(*prefix), *id))) {
        writer.route(&mut out, prefix, id).expect("memory");
    }
    compare(routes, &out, Form::Text);
    out.clear();
    if !routes.hops.iter().any(|(_, hop)| matches!(hop, Hop::Id(_))) {
        for (prefix, hop) in all(routes) {
            ip_route::write_route(&mut out, prefix, &hop).expect("memory");
        }
        compare(routes, &out, Form::IpRoute);
    }
}

fn compare(routes: &Routes, written: &[u8], form: Form) {
    let mut again = Routes::default();
    let read = again.read("written", &mut &written[..], &Options { form: Some(form), ..Options::default() });
    let shown = String::from_utf8_lossy(written);
    match read {
        Ok(()) => {
            let (mut before, mut after) = (all(routes), all(&again));
            before.sort();
            after.sort();
            assert_eq!(after, before, "{shown}");
        }
        // A dump may repeat a prefix; our text does not take that.
        Err(error) => assert!(error.to_string().contains("was given before"), "{error}\n{shown}"),
    }
}
