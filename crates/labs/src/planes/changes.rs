// SPDX-License-Identifier: MIT OR Apache-2.0
//! A control plane that changes the user plane under load: how long a change takes, and how many frames are lost.
//!
//! The user plane routes frames between two packet sockets. The control plane changes a route of the traffic's own, or the whole
//! configuration, by a channel of the deployment's shared memory (`icc`); from a guest, by memory that it shares with this machine.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::Value;

use super::super::shared::Setting;
use super::client::Client;
use super::measure::on_core;
use super::network::{Network, frame};
use super::subject::{Device, Placement, Plan, client, router};
use super::{Asked, Cores, LEFT_OUT};
use crate::Error;
use tester::station::Station;
use tester::trial::Trial;
use trials::inside::{self, RESIDUAL};

/// Frames a second while changes are made: so few that a machine with much else to do takes them all.
const RATE: f64 = 2000.0;
/// Their payload.
const PAYLOAD: usize = 64;
/// How long one part of the traffic takes; it is repeated until the changes are made.
const PART: Duration = Duration::from_secs(1);
const QUICK_PART: Duration = Duration::from_millis(200);
/// Parts at most.
const PARTS: usize = 300;
/// How long all changes of a kind may take.
const CHANGES: Duration = Duration::from_secs(240);
const WARM_UP: Duration = Duration::from_secs(30);

/// What is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChangeKind {
    /// Nothing.
    Nothing,
    /// A route.
    Route,
    /// The whole configuration.
    Whole,
}

impl ChangeKind {
    pub(super) const ALL: [ChangeKind; 3] = [ChangeKind::Nothing, ChangeKind::Route, ChangeKind::Whole];

    pub(super) fn key(self) -> &'static str {
        match self {
            ChangeKind::Nothing => "nothing",
            ChangeKind::Route => "route",
            ChangeKind::Whole => "whole",
        }
    }

    pub(super) fn in_words(self) -> &'static str {
        match self {
            ChangeKind::Nothing => "nothing",
            ChangeKind::Route => "a route",
            ChangeKind::Whole => "the whole configuration",
        }
    }

    fn count(self, quick: bool) -> u64 {
        match (self, quick) {
            (ChangeKind::Nothing, _) => 0,
            (ChangeKind::Route, true) => 20,
            (ChangeKind::Route, false) => 500,
            (ChangeKind::Whole, true) => 2,
            (ChangeKind::Whole, false) => 20,
        }
    }
}

/// What changes of a kind took.
#[derive(Clone, Debug)]
pub(super) struct Changes {
    pub(super) placement: Placement,
    pub(super) kind: ChangeKind,
    /// Microseconds of each, in order.
    pub(super) took_us: Vec<f64>,
    /// Changes that were seen when they were looked up.
    pub(super) seen: u64,
    pub(super) sent: u64,
    pub(super) lost: u64,
    /// Frames that the tester itself had no room for.
    pub(super) missed: u64,
    /// Why there is nothing.
    pub(super) why_not: Option<String>,
}

/// Measures all kinds in all placements.
pub(super) fn measure(
    setting: &mut Setting<'_>,
    place: (&Network, &Cores, &Asked),
) -> Result<Vec<Changes>, Error> {
    let (network, cores, _) = place;
    network.forward(false)?;
    network.address(Device::Kernel)?;
    let mut all = Vec::new();
    for placement in Placement::ALL {
        setting.progress.part(format!("changes under load, {}", placement.in_words()));
        network.receive_on(if placement == Placement::Smp { &cores.all } else { &cores.user })?;
        let quick = setting.common.quick && placement == Placement::Smp;
        match placement.lacks(cores).or_else(|| quick.then(|| LEFT_OUT.to_owned())) {
            None => all.extend(of_placement(setting, place, placement).unwrap_or_else(|why| {
                setting.progress.say(&format!("{}: {why}", placement.in_words()));
                none(placement, &super::failed(&why.to_string()))
            })),
            Some(why) => all.extend(none(placement, &why)),
        }
        setting.progress.step();
    }
    Ok(all)
}

fn none(placement: Placement, why: &str) -> Vec<Changes> {
    ChangeKind::ALL.map(|kind| Changes::none(placement, kind, Some(why.to_owned()))).into()
}

impl Changes {
    fn none(placement: Placement, kind: ChangeKind, why_not: Option<String>) -> Changes {
        Changes { placement, kind, took_us: Vec::new(), seen: 0, sent: 0, lost: 0, missed: 0, why_not }
    }
}

fn of_placement(
    setting: &Setting<'_>,
    (network, cores, asked): (&Network, &Cores, &Asked),
    placement: Placement,
) -> Result<Vec<Changes>, Error> {
    let mut plan = Plan::new(placement, cores)?;
    plan.user("user", router(network)?, &cores.user, "arguments = [\"-R\"]\n");
    plan.management(Some("user"))?;
    let deployment = plan.start(network)?;
    let client = Client { timeout: CHANGES, ..client(network, placement, asked) };
    client.wait().map_err(|why| why.after(format_args!("\n{}", deployment.said())))?;
    let mut station = network.tester(Device::Kernel, 0)?;
    inside::resize(&mut station, frame(PAYLOAD), RESIDUAL)?;
    on_core(cores, || station.warm_up(WARM_UP)).map_err(|why| Error::from(why).of(placement.in_words()))?;
    let mut all = Vec::new();
    for kind in ChangeKind::ALL {
        let count = kind.count(setting.common.quick);
        let path = format!("/change?count={count}&kind={}", kind.key());
        let mut changes = Changes::none(placement, kind, None);
        let part = if setting.common.quick { QUICK_PART } else { PART };
        let answer = under_load(cores, (&mut station, part), &mut changes, || match kind {
            ChangeKind::Nothing => Ok(Value::Null),
            _ => client
                .get(&path)
                .map_err(|why| Error::system(&path)(why).after(format_args!("\n{}", deployment.said()))),
        })?;
        let took = answer["took_ns"].as_array().into_iter().flatten().filter_map(Value::as_f64);
        changes.took_us = took.map(|ns| ns / 1e3).collect();
        changes.seen = answer["seen"].as_u64().unwrap_or(0);
        all.push(changes);
    }
    drop(station);
    deployment.stop()?;
    Ok(all)
}

/// Sends frames before, while and after changes are made.
fn under_load(
    cores: &Cores,
    (station, part): (&mut Station, Duration),
    changes: &mut Changes,
    make: impl FnOnce() -> Result<Value, Error>,
) -> Result<Value, Error> {
    let (begun, over) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let traffic = scope.spawn(|| {
            on_core(cores, || {
                for _ in 0..PARTS {
                    // One more part after the last change.
                    let last = over.load(Ordering::Acquire);
                    let detail = station.run(Trial::new(RATE, part));
                    begun.store(true, Ordering::Release);
                    let detail = detail?;
                    changes.sent += detail.outcome.sent;
                    changes.lost += detail.outcome.lost();
                    changes.missed += detail.missed;
                    if last {
                        break;
                    }
                }
                Ok(())
            })
        });
        while !begun.load(Ordering::Acquire) {
            std::thread::sleep(Duration::from_millis(1));
        }
        let answer = make();
        over.store(true, Ordering::Release);
        let sent: Result<(), Error> = traffic.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        sent.and(answer)
    })
}
