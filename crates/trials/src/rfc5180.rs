// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor test rfc5180`: the procedures of RFC 2544 with IPv6, under the conditions of RFC 5180, section 7.

use std::cell::RefCell;
use std::time::Duration;

use tester::extension::{self, CHAIN, Extension};
use tester::frame;
use tester::search::ipv6::{self, Done, HOP_BY_HOP_PERCENT};
use tester::station::{Plan, Stream};
use tester::trial::Trial;

use super::record::Found;
use super::rfc2544::Wanted;
use super::search::{Document, Profile, Search, Site, each_size_and};
use super::{Failure, agent};
use crate::Error;

/// Under what the procedures are done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// IPv6 without extension headers.
    Plain,
    /// A routing header of 24 bytes.
    Routing,
    /// A header of destination options of 8 bytes.
    Destination,
    /// A fragment header of 8 bytes, of a packet that is whole.
    Fragment,
    /// An authentication header of 24 bytes.
    Authentication,
    /// Routing, destination options and fragment headers: 40 bytes.
    Chain,
    /// A hop-by-hop header of 8 bytes: no throughput, but loss and load at 1, 10 and 50 % of the greatest rate.
    HopByHop,
    /// IPv4 alone.
    Ipv4,
    /// 90 % of the frames IPv4, the others IPv6.
    Ipv4_90,
    /// Half of each.
    Ipv4_50,
    /// 10 % of the frames IPv4.
    Ipv4_10,
}

/// What a condition makes of the frames.
enum Kind {
    Headers(Vec<Extension>),
    HopByHop,
    /// Tenths that are IPv4.
    Mix(u32),
}

impl Condition {
    const ALL: [Condition; 11] = {
        use Condition::{Authentication, Chain, Destination, Fragment, HopByHop, Plain, Routing};
        use Condition::{Ipv4, Ipv4_10, Ipv4_50, Ipv4_90};
        [
            Plain,
            Routing,
            Destination,
            Fragment,
            Authentication,
            Chain,
            HopByHop,
            Ipv4,
            Ipv4_90,
            Ipv4_50,
            Ipv4_10,
        ]
    };

    /// As names of results have it: that of the command line with `_` for `-`.
    fn name(self) -> String {
        let name = match self {
            Condition::Plain => "plain",
            Condition::Routing => "routing",
            Condition::Destination => "destination",
            Condition::Fragment => "fragment",
            Condition::Authentication => "authentication",
            Condition::Chain => "chain",
            Condition::HopByHop => "hop_by_hop",
            Condition::Ipv4 => "ipv4",
            Condition::Ipv4_90 => "ipv4_90",
            Condition::Ipv4_50 => "ipv4_50",
            Condition::Ipv4_10 => "ipv4_10",
        };
        name.to_owned()
    }

    fn kind(self) -> Kind {
        match self {
            Condition::Plain => Kind::Headers(Vec::new()),
            Condition::Routing => Kind::Headers(vec![Extension::Routing]),
            Condition::Destination => Kind::Headers(vec![Extension::Destination]),
            Condition::Fragment => Kind::Headers(vec![Extension::Fragment]),
            Condition::Authentication => Kind::Headers(vec![Extension::Authentication]),
            Condition::Chain => Kind::Headers(CHAIN.to_vec()),
            Condition::HopByHop => Kind::HopByHop,
            Condition::Ipv4 => Kind::Mix(10),
            Condition::Ipv4_90 => Kind::Mix(9),
            Condition::Ipv4_50 => Kind::Mix(5),
            Condition::Ipv4_10 => Kind::Mix(1),
        }
    }
}

/// IPv6 with and without extension headers, and mixed with IPv4, as RFC 5180 has it.
#[derive(Clone, Debug)]
pub struct Rfc5180 {
    /// What all tests by frame size need to know.
    pub search: Search,
    /// Under these conditions; the profile's, if there are none.
    pub under: Vec<Condition>,
    /// Which procedures.
    pub wanted: Wanted,
}

impl Rfc5180 {
    fn conditions(&self) -> Vec<Condition> {
        match (&self.under[..], self.search.profile) {
            ([], Profile::Rfc) => Condition::ALL.to_vec(),
            ([], Profile::Quick) => vec![Condition::Plain, Condition::Chain, Condition::HopByHop],
            (some, _) => some.to_vec(),
        }
    }
}

/// Does the procedures for each frame size.
pub(super) fn run(args: &Rfc5180) -> Result<(), Failure> {
    let search = args.search.with_both_families();
    search.without_filters("RFC 5180").and_then(|()| args.wanted.check(&search))?;
    let least = search.sizes().into_iter().min().unwrap_or(0);
    let done = RefCell::new(Done {
        least_with_all: true,
        load_seen: true,
        repeats: search.repeats(),
        is_rig: search.is_rig(),
        back_to_back: args.wanted.has_bursts(&search),
        ..Done::default()
    });
    let procedure = |site: &mut Site, found: &mut Found| {
        let mut done = done.borrow_mut();
        found.ask(args.wanted.asked(&search));
        let base = site.station.plan().clone();
        if base.streams.iter().flat_map(|s| &s.flows).any(|(flow, _)| flow.src.is_ipv4()) {
            return Err(Error::setting(
                "the device's flows are IPv4; --flow 'PORT src=PREFIX dst=PREFIX' gives others",
            ));
        }
        (done.senders, done.random) = (site.senders, search.networks().is_some());
        (done.ports, done.medium) = (site.station.port_count(), site.is_medium);
        done.in_place = base.streams.iter().flat_map(|s| &s.flows).all(|(flow, _)| ipv6::is_in_place(flow));
        for condition in args.conditions() {
            site.begin_series(&condition.name());
            under(site, args, &search, condition, (&base, least), &mut done, found)?;
        }
        site.begin_series("");
        Ok(site.station.replan(&base)?)
    };
    each_size_and(&search, Document::Rfc5180, procedure, |tried, found| {
        let done = Done { sizes: tried.to_vec(), ..done.take() };
        let ledger = ipv6::ledger(&done);
        found.deviate(&if tried.is_empty() { ledger.untried() } else { ledger });
    })
}

/// The procedures under one condition.
fn under(
    site: &mut Site,
    args: &Rfc5180,
    search: &Search,
    condition: Condition,
    (base, least): (&Plan, usize),
    done: &mut Done,
    found: &mut Found,
) -> Result<(), Error> {
    let name = condition.name();
    let headers = match condition.kind() {
        Kind::Headers(headers) => headers,
        Kind::HopByHop => vec![Extension::HopByHop],
        Kind::Mix(tenths) => {
            let Some(other) = &site.other else {
                found.text +=
                    &format!("{:>6} bytes  {name}: the device has flows of one family only\n", site.size);
                return Ok(());
            };
            let plan = mixed(base, &search.with_ports(other), tenths);
            site.station.replan(&plan)?;
            site.begin("warm-up");
            site.station.warm_up(search.warm_up())?;
            args.wanted.run(site, search, least, found)?;
            done.ipv4_tenths.push(tenths);
            return Ok(());
        }
    };
    let room = base
        .streams
        .iter()
        .flat_map(|s| &s.flows)
        .all(|(f, _)| site.size >= frame::smallest(f.src, &headers));
    if !room {
        done.least_with_all = false;
        let length = extension::length(&headers);
        found.text += &format!("{:>6} bytes  {name}: no room for {length} bytes of headers\n", site.size);
        return Ok(());
    }
    let mut plan = base.clone();
    plan.streams.iter_mut().for_each(|stream| stream.headers.clone_from(&headers));
    // The neighbours are those that the device knows already.
    site.station.replan(&plan)?;
    if condition == Condition::HopByHop {
        return hop_by_hop(site, search, done, found);
    }
    args.wanted.run(site, search, least, found)?;
    done.chains.push(headers);
    Ok(())
}

/// Groups of ten frames after which the flows of a mix are repeated.
const GROUPS: usize = 25;

/// Flows of both families in turn, of which so many tenths are IPv4.
fn mixed(six: &Plan, four: &Plan, tenths: u32) -> Plan {
    let mut plan = six.clone();
    for (stream, (six, four)) in plan.streams.iter_mut().zip(six.streams.iter().zip(&four.streams)) {
        if six.flows.is_empty() || four.flows.is_empty() {
            continue;
        }
        let (mut sixes, mut fours) = (six.flows.iter().cycle(), four.flows.iter().cycle());
        let pick = |place: u32| {
            // So many of each ten, spread evenly.
            let is_four = place * tenths % 10 < tenths;
            if is_four { fours.next().copied() } else { sixes.next().copied() }
        };
        let flows = (0..GROUPS).flat_map(|_| 0..10).filter_map(pick).collect();
        *stream = Stream { flows, ..six.clone() };
    }
    plan
}

/// Loss, latency and the device's load with frames that every router may look into (RFC 5180 5.3).
fn hop_by_hop(site: &mut Site, search: &Search, done: &mut Done, found: &mut Found) -> Result<(), Error> {
    let usual = if search.profile == Profile::Rfc { Duration::from_secs(60) } else { Duration::from_secs(1) };
    let time = search.trial.unwrap_or(usual);
    site.begin("impact");
    for percent in HOP_BY_HOP_PERCENT {
        let before = agent::processor_ticks(&site.device_cores);
        let trial = Trial::new(site.rate_max * f64::from(percent) / 100.0, time);
        let detail = site.station.run(trial)?;
        let after = agent::processor_ticks(&site.device_cores);
        let name = |what: &str| format!("{}.{percent}", site.name(what));
        if detail.outcome.sent == 0 || !detail.outcome.tester_kept_up() {
            done.hop_by_hop_unsent.push(percent);
        }
        if detail.outcome.sent == 0 {
            found.text += &format!(
                "             hop-by-hop header at {percent} % of the greatest rate: no frame was due in this time\n"
            );
            continue;
        }
        let loss = detail.outcome.loss_ratio();
        found.note(name("loss_share"), "", loss);
        let mark = if detail.outcome.is_of_device() { "" } else { "  (the tester did not keep up)" };
        found.text += &format!(
            "             hop-by-hop header at {percent:>2} % of the greatest rate: {:.4} % lost",
            100.0 * loss
        );
        if !detail.latency.is_empty() {
            let p99 = detail.latency.value_at_quantile(0.99) as f64 / 1e3;
            found.text += &format!(", latency p99 {p99:.1} us");
            found.note(name("latency_us.p99"), "us", p99);
        }
        match before.zip(after).and_then(|(before, after)| before.share_until(&after)) {
            Some(share) => {
                found.note(name("device_load_share"), "", share);
                found.text += &format!(", the device's cores busy for {:.0} % of their time", 100.0 * share);
            }
            None => done.load_seen = false,
        }
        found.text += mark;
        found.text += "\n";
        done.hop_by_hop.push(percent);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use tester::frame::Flow;
    use wire::MacAddr;

    use super::*;

    #[test]
    fn conditions_keep_their_names() {
        let names: Vec<String> = Condition::ALL.iter().map(|condition| condition.name()).collect();
        let documented =
            "plain routing destination fragment authentication chain hop_by_hop ipv4 ipv4_90 ipv4_50 ipv4_10";
        assert_eq!(names.join(" "), documented);
    }

    #[test]
    fn a_mix_has_so_many_of_each_ten() {
        let flow = |src: &str, dst: &str| Flow {
            src_mac: MacAddr([2; 6]),
            dst_mac: MacAddr([2; 6]),
            src: src.parse().expect("an address"),
            dst: dst.parse().expect("an address"),
            src_port: 1,
            dst_port: 7,
        };
        let plan = |flow| Plan {
            streams: vec![
                Stream { flows: vec![(flow, Some(1)); 3], sizes: vec![128], ..Stream::default() },
                Stream::default(),
            ],
            ..Plan::default()
        };
        let (six, four) = (plan(flow("2001:2::1", "2001:2::2")), plan(flow("198.18.0.1", "198.19.0.1")));
        for tenths in [10, 9, 5, 1] {
            let mixed = mixed(&six, &four, tenths);
            let flows = &mixed.streams[0].flows;
            for ten in flows.chunks(10) {
                assert_eq!(ten.iter().filter(|(flow, _)| flow.src.is_ipv4()).count(), tenths as usize);
            }
            assert_eq!(
                (flows.len(), mixed.streams[0].sizes.len(), mixed.streams[1].flows.len()),
                (250, 1, 0)
            );
        }
        // Two of one kind never follow each other.
        let half: Vec<bool> =
            mixed(&six, &four, 5).streams[0].flows.iter().map(|(f, _)| f.src.is_ipv4()).collect();
        assert!(half.windows(2).all(|two| two[0] != two[1]));
    }
}
