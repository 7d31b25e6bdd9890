// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packets that a router forwards while its 100,000 series are scraped.

use std::fmt::Write as _;

use testbed::rig;

use super::{Rig, wait_for};

#[test]
fn scrapes_of_100_000_series_cost_no_packets() {
    if rig::skip_without("scrapes_of_100_000_series_cost_no_packets", &["curl"]) {
        return;
    }
    let mut text =
        "src :: RatedSource(RATE 10000, LIMIT -1, STOP false) -> sent :: Counter -> q :: Queue(2000)
        -> Unqueue -> received :: Counter -> Discard;\n"
            .to_owned();
    for n in 0..3570 {
        let _ = writeln!(text, "Idle -> a{n} :: Counter -> b{n} :: Strip(0) -> d{n} :: Discard;");
    }
    let rig = Rig::with(&text, &[]);
    let count = |handler: &str| -> u64 {
        let value = rig.get(&format!("/api/v1/routers/edge/handlers/{handler}"))["value"].clone();
        value.as_str().unwrap().trim().parse().unwrap()
    };
    wait_for(|| count("received.count") > 1000);
    // At first what has come out is read before what went in, and at the end after it. So what is missing was lost, however long a reading takes.
    let (received, dropped) = (count("received.count"), count("q.drops"));
    let sent = count("sent.count");
    let mut scrapes = 0;
    // Long enough that one percent is more than what is under way.
    while scrapes < 5 || count("sent.count") - sent < 10_000 {
        let metrics = rig.get("/metrics");
        let series = metrics.as_str().unwrap().lines().filter(|line| line.starts_with("junctor_")).count();
        assert!(series >= 100_000, "{series}");
        scrapes += 1;
    }
    let sent = count("sent.count") - sent;
    let (received, dropped) = (count("received.count") - received, count("q.drops") - dropped);
    println!("{scrapes} scrapes: {sent} sent, {received} received, {dropped} dropped");
    assert!(dropped * 100 <= sent, "{dropped} of {sent}");
    // But for what the queue holds, and a batch on its way.
    assert!(received + dropped + 2100 > sent, "{received} of {sent}");
}
