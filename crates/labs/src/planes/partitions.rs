// SPDX-License-Identifier: MIT OR Apache-2.0
//! The user plane over several partitions: as many passthroughs, each on a core and with a port of its own. The generator divides its
//! flows among them.

use std::time::Duration;

use super::super::shared::{Setting, cores_in_words};
use super::Cores;
use super::measure::{Rates, beside, on_core, parameters, search};
use super::network::{Network, frame};
use super::subject::{Device, Placement, Plan, passthrough};
use crate::Error;
use trials::inside::{self, ON_WIRES};

/// Partitions at most.
const MOST: usize = 4;
/// Payloads that are sent.
const PAYLOADS: [usize; 2] = [64, 1472];
/// How long the partitions may take to forward the first frames.
const WARM_UP: Duration = Duration::from_secs(30);

/// What so many partitions forward.
#[derive(Clone, Debug)]
pub(super) struct Spread {
    pub(super) partitions: usize,
    /// By payload; none if this machine has too few cores.
    pub(super) rates: Vec<(usize, Rates)>,
    /// What shares a core with what, or why it was not measured.
    pub(super) note: String,
}

/// Measures 1, 2, ... partitions in each round.
pub(super) fn measure(
    setting: &mut Setting<'_>,
    network: &Network,
    cores: &Cores,
) -> Result<Vec<Spread>, Error> {
    let most = cores.all.len().clamp(2, MOST);
    let mut all: Vec<Spread> =
        (1..=most).map(|partitions| Spread { partitions, rates: Vec::new(), note: String::new() }).collect();
    network.forward(false)?;
    network.address(Device::Kernel)?;
    for _ in 0..super::rounds(setting.common) {
        for spread in &mut all {
            setting.progress.part(format!("user plane over {} partitions", spread.partitions));
            match cores.for_user_planes(spread.partitions) {
                Some(user) => one(setting, network, cores, &user, spread)?,
                None => spread.note = format!("{} here", cores_in_words(cores.all.len())),
            }
            setting.progress.step();
        }
    }
    Ok(all)
}

fn one(
    setting: &Setting<'_>,
    network: &Network,
    cores: &Cores,
    user: &[usize],
    spread: &mut Spread,
) -> Result<(), Error> {
    network.receive_on(user)?;
    let mut plan = Plan::new(Placement::Process, cores)?;
    for (index, core) in (0..).zip(user) {
        plan.user(&format!("user{index}"), passthrough(index), &[*core], "");
    }
    let deployment = plan.start(network)?;
    let mut station = network.tester(Device::Passthrough, user.len() as u16)?;
    on_core(cores, || station.warm_up(WARM_UP))?;
    let payloads: &[usize] = if setting.common.quick { &PAYLOADS[..1] } else { &PAYLOADS };
    for payload in payloads.iter().copied() {
        inside::resize(&mut station, frame(payload), ON_WIRES)?;
        let parameters = parameters(setting, payload);
        let (rates, _) = beside(cores, &mut station, None, |station| search(station, &parameters))?;
        let at = spread.rates.iter().position(|(size, _)| *size == payload).unwrap_or_else(|| {
            spread.rates.push((payload, Rates::default()));
            spread.rates.len() - 1
        });
        spread.rates[at].1.add(rates?);
    }
    let planes: Vec<String> = user.iter().map(|core| format!("{core}: user")).collect();
    spread.note = match user.contains(&cores.tester) {
        true => format!("{}, tester", planes.join("; ")),
        false => format!("{}; {}: tester", planes.join("; "), cores.tester),
    };
    drop(station);
    deployment.stop()
}
