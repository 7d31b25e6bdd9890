// SPDX-License-Identifier: MIT OR Apache-2.0
//! Processes are killed under traffic, one after the other: nobody may notice.

use std::time::Instant;

use super::Live;
use super::traffic::Traffic;
use super::watch::Watch;
use crate::Error;

/// Who can be killed. The control plane is the reader of FPM, too; `fpm` is its connection alone.
pub const VICTIMS: [&str; 5] = ["routes", "zebra", "bgpd", "bfdd", "fpm"];

/// What came of all kills of one of them.
#[derive(Default)]
struct Sum {
    seconds: Vec<f64>,
    sent: u64,
    lost: u64,
    removed: u64,
}

pub(super) fn run(live: &mut Live<'_>) -> Result<(), Error> {
    let victims = live.args.victims.iter();
    let mut sums: Vec<(&str, Sum)> = victims.map(|victim| (victim.as_str(), Sum::default())).collect();
    for round in 1..=live.args.kills {
        for (victim, sum) in &mut sums {
            one(live, victim, &format!("{victim} killed, round {round}"), sum)?;
        }
    }
    if live.args.kills == 0 {
        return Ok(());
    }
    for (victim, sum) in sums {
        let worst = sum.seconds.iter().copied().fold(0.0, f64::max);
        live.note(&format!("{victim}_kills"), "", live.args.kills as f64);
        live.note(&format!("{victim}_kill_packets"), "packets", sum.sent as f64);
        live.note(&format!("{victim}_kill_lost"), "packets", sum.lost as f64);
        live.note(&format!("{victim}_kill_removed"), "routes", sum.removed as f64);
        live.note(&format!("{victim}_kill_well_again_s"), "s", worst);
    }
    live.check_diff("after the kills")
}

/// Kills one of them, and waits until it is there again with all that it knew.
fn one(live: &mut Live<'_>, victim: &str, when: &str, sum: &mut Sum) -> Result<(), Error> {
    let size = live.oracle.len();
    let (connections, sessions) = (live.site.tap.connections(), live.site.speaker.sessions());
    let watch = Watch::start(live.site.router_socket(), &live.targets)?;
    let traffic = Traffic::start(&live.site.rig, &live.targets, live.args.rate)?;
    let begun = Instant::now();
    match victim {
        "fpm" => live.site.tap.cut(),
        plane => live.site.kill(plane)?,
    }
    let site = &live.site;
    let is_new = || match victim {
        // It has learnt all again. zebra may still withdraw some then.
        "bgpd" => {
            site.speaker.sessions() > sessions && site.speaker.is_open() && site.bgpd_knows() == Some(size)
        }
        "bfdd" => site.watches_neighbour(),
        _ => site.tap.connections() > connections,
    };
    site.wait(&format!("what was killed to return ({when})"), is_new)?;
    // Who notices nothing is observed for a while, too.
    let seconds = if matches!(victim, "bgpd" | "bfdd") { 5 } else { 1 };
    let until = traffic.count().sent + seconds * u64::from(live.args.rate);
    site.wait(&format!("all to be well again ({when})"), || {
        is_new() && site.is_settled(size) && traffic.count().sent >= until
    })?;
    sum.seconds.push(begun.elapsed().as_secs_f64());
    let (seen, count) = (watch.end()?, traffic.end());
    live.say(&format!("{when}: {count:?}, {seen:?}"));
    sum.sent += count.sent;
    sum.lost += count.lost();
    sum.removed += seen.removed;
    if count.lost() > 0 {
        live.fail(format!("{when}: {} of {} packets were lost", count.lost(), count.sent));
    }
    if seen.removed > 0 {
        live.fail(format!(
            "{when}: {} routes were removed; at the worst there were {}",
            seen.removed, seen.least
        ));
    }
    seen.changed.into_iter().for_each(|change| live.fail(format!("{when}: {change}")));
    live.check(when)
}
