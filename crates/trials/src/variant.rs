// SPDX-License-Identifier: MIT OR Apache-2.0
//! Everything several times over: with other addresses (RFC 2544, section 12), in bursts (section 21), or with modifiers (section 11),
//! such as filters on the device (11.4).

use std::io::Write as _;
use std::time::Duration;

use tester::station::{Plan, Station};
use tester::trial::Trial;

use super::device::{Filtering, Routing, Running};
use super::filters::{Case, Filters};
use super::modifiers::{Beside, forwarded};
use super::networks;
use super::reset::shell_with;
use crate::Error;

/// How fast, and for how long, is sent what filters are to stop.
const PROBE: (f64, Duration) = (1000.0, Duration::from_millis(100));
/// For how long that is waited for.
const SOON: Duration = Duration::from_secs(1);

/// Between whom frames are sent, and past what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Variant {
    /// As the device's flows say.
    Given,
    /// From one address of each port to one.
    OnePair,
    /// From one address of each port to random ones in so many networks.
    Networks(u32),
    /// As the device's flows say, before there are filters.
    Unfiltered,
    /// The same, with additional frames.
    Beside(Beside),
    /// The same, past filters.
    Filters(Case),
    /// In bursts of so many frames; of one, at a steady rate.
    Burst(u64),
}

/// What a variant does something to, and how.
pub(super) struct Scene<'a> {
    pub(super) station: &'a mut Station,
    pub(super) routing: &'a Routing,
    pub(super) filtering: &'a Filtering,
    /// Sets filters where the tester cannot.
    pub(super) filter_command: Option<&'a str>,
    /// The device, if it is one of this process.
    pub(super) running: Option<&'a mut Running>,
    /// It looks at Ethernet addresses only.
    pub(super) bridged: bool,
    /// What the device cannot have is left out.
    pub(super) is_optional: bool,
    /// It has had filters from the tester.
    pub(super) filtered: bool,
    /// What is sent if nothing is changed.
    pub(super) given: &'a Plan,
    pub(super) seed: u64,
    pub(super) warm_up: Duration,
}

/// What came of the beginning of a variant.
#[derive(Clone, Debug, Default)]
pub(super) struct Begun {
    /// What the device's owner must have done.
    pub(super) needs: Option<String>,
    /// Whether each trial begins with routing updates of all networks, if there are any.
    pub(super) announced: Option<bool>,
    /// The filters that were set.
    pub(super) filters: Option<Filtered>,
}

/// Filters that were set on a device.
#[derive(Clone, Debug)]
pub(super) struct Filtered {
    /// For which results.
    pub(super) name: String,
    /// They, one a line, in order.
    pub(super) list: String,
    /// The commands that the device was given to set them.
    pub(super) commands: String,
    /// What was seen of them.
    pub(super) seen: Seen,
}

/// Whether filters are known to be in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Seen {
    /// So many frames that none permits were sent, and none arrived, while without filters some did.
    Stopped(u64),
    /// Such frames do not arrive without filters either.
    NeverCame,
    /// There is no such frame: the flows come from everywhere.
    NoSuchFrame,
}

impl Seen {
    /// For people.
    pub(super) fn words(self) -> String {
        match self {
            Seen::Stopped(frames) => format!("in force: of {frames} frames that none permits, none came through"),
            Seen::NeverCame => {
                "not seen to be in force: frames that none permits do not come through without filters either".to_owned()
            }
            Seen::NoSuchFrame => {
                "not seen to be in force: the flows come from everywhere, so there is no frame that none permits".to_owned()
            }
        }
    }
}

impl Variant {
    /// As names of results have it.
    pub(super) fn name(self) -> String {
        match self {
            Variant::Given | Variant::Unfiltered | Variant::Burst(1) => String::new(),
            Variant::Burst(frames) => format!("burst_{frames}"),
            Variant::OnePair => "one_pair".to_owned(),
            Variant::Beside(what) => what.name(),
            Variant::Networks(count) => format!("networks_{count}"),
            Variant::Filters(case) => case.name().to_owned(),
        }
    }

    /// Whether the device is to have something that it may not be able to have.
    pub(super) fn modifies(self) -> bool {
        matches!(self, Variant::Beside(_) | Variant::Filters(_))
    }

    /// Has the station send so from now on, and the device be so.
    pub(super) fn begin(self, scene: &mut Scene<'_>) -> Result<Begun, Error> {
        let is_optional = scene.is_optional;
        let mut plan = scene.given.clone();
        let mut begun = Begun::default();
        forwarded(&mut plan, &scene.station.own_addresses());
        match self {
            Variant::Given => return Ok(begun),
            Variant::OnePair => plan.streams.iter_mut().for_each(|stream| stream.flows.truncate(1)),
            Variant::Networks(count) => {
                let routes = networks::spread(&mut plan, count as usize, scene.seed)?;
                begun.needs = scene.routing.put(&routes)?;
                begun.announced = Some(networks::announce(&mut plan, &routes));
            }
            Variant::Unfiltered if is_optional && !scene.filtered => {}
            Variant::Unfiltered => drop(scene.filter(None)?),
            Variant::Beside(what) => what.add(&mut plan, &scene.station.own_addresses())?,
            Variant::Burst(frames) => plan.burst = frames,
            Variant::Filters(case) => {
                let filters = Filters::new(case, &plan, scene.bridged)?;
                let (commands, seen) = scene.see(&filters, &plan)?;
                begun.filters = Some(Filtered { name: self.name(), list: filters.list(), commands, seen });
            }
        }
        scene.station.replan(&plan)?;
        scene.station.warm_up(scene.warm_up).map_err(|why| match &begun.needs {
            Some(needs) => Error::Needs { why, needs: needs.clone() },
            None => Error::Station(why),
        })?;
        Ok(begun)
    }
}

impl Scene<'_> {
    /// Takes filters off the device, or puts these on it. Returns the commands that it was given.
    fn filter(&mut self, filters: Option<&Filters>) -> Result<String, Error> {
        if let Some(command) = self.filter_command {
            let cannot = Error::system("a list of filters cannot be written");
            let mut file = tempfile::NamedTempFile::new().map_err(&cannot)?;
            let text = filters.map(Filters::list).unwrap_or_default();
            file.write_all(text.as_bytes()).map_err(&cannot)?;
            let count = filters.map_or(0, Filters::count).to_string();
            let list = file.path().to_string_lossy();
            let told = [("JUNCTOR_FILTERS", &*count), ("JUNCTOR_FILTER_LIST", &*list)];
            shell_with(command, &told)?;
            return Ok(format!("JUNCTOR_FILTERS={count} JUNCTOR_FILTER_LIST=LIST {command}\n"));
        }
        match (self.filtering, self.running.as_deref_mut()) {
            (Filtering::Ours(put), _) => put(filters),
            (Filtering::Swap, Some(running)) => running.filter(filters),
            _ => Err(Error::unfit(
                "--filters: the tester cannot set filters on this device; --filter-command COMMAND says how",
            )),
        }
    }

    /// Puts filters on the device, and sees whether they stop what none of them permits. Returns the commands, too.
    fn see(&mut self, filters: &Filters, plan: &Plan) -> Result<(String, Seen), Error> {
        let Some(probe) = filters.probe(plan) else {
            return self.filter(Some(filters)).map(|commands| (commands, Seen::NoSuchFrame));
        };
        let probe = Plan { stragglers: plan.stragglers.min(SOON), ..probe };
        self.filter(None)?;
        let (_, without) = self.send(&probe)?;
        let commands = self.filter(Some(filters))?;
        let (sent, received) = self.send(&probe)?;
        match (without, received) {
            (0, _) => Ok((commands, Seen::NeverCame)),
            (_, 0) => Ok((commands, Seen::Stopped(sent))),
            _ => Err(Error::unfit(format!(
                "--filters: they are not in force: of {sent} frames that none of them permits, {received} came through"
            ))),
        }
    }

    /// Frames of this plan that left, and that arrived.
    fn send(&mut self, plan: &Plan) -> Result<(u64, u64), Error> {
        self.station.replan(plan)?;
        let (rate, time) = PROBE;
        let detail = self.station.run(Trial::new(rate, time))?;
        Ok((detail.outcome.sent, detail.outcome.received + detail.counts.misrouted))
    }
}
