// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor sessions`: sessions of the firewall, the address translator or the load balancer of a running router.

use std::collections::HashMap;
use std::net::IpAddr;

use client::Failure;
use firewall::{AddressRange, Addresses};
use rulefile::names;
use serde_json::json;
use tables::flow::State;
use views::sessions::{self as view, Holder, Session};

use crate::findings::Of;
use crate::{ctl, exit, outcome};

/// List, count or end sessions of a running router's firewall, address translator or load balancer.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:
  junctor sessions
  junctor sessions --address 10.0.1.0/24 --protocol tcp --state open
  junctor sessions --count --port 443
  junctor sessions --vrf red                where the router has VRFs
  junctor sessions --top 10                 the hosts with the most bytes
  junctor sessions --address 192.0.2.9 --end
  junctor sessions --element nat44          if there are several: fw, nat44, lb
  junctor sessions --json --limit 0         all of them")]
pub(crate) struct Args {
    /// Only those with this address on one side: ADDRESS, ADDRESS/LENGTH or FIRST-LAST.
    #[arg(long)]
    address: Option<String>,
    /// Only those with this port on one side.
    #[arg(long)]
    port: Option<u16>,
    /// Only those of this protocol: its name or number.
    #[arg(long)]
    protocol: Option<String>,
    /// Only those in this state: asked, answered, open, half-closed, closed, reset, single.
    #[arg(long)]
    state: Option<String>,
    /// Only those of this VRF: that of their first packet or of their answers; `main` is the main table.
    #[arg(long, value_name = "NAME")]
    vrf: Option<String>,
    /// Show so many at most; 0 is all.
    #[arg(long, default_value_t = 100)]
    limit: usize,
    /// Only say how many there are.
    #[arg(long, conflicts_with_all = ["top", "end"])]
    count: bool,
    /// Show the N sources with the most bytes instead.
    #[arg(long, value_name = "N", conflicts_with = "end")]
    top: Option<usize>,
    /// End them. Needs --address.
    #[arg(long, requires = "address")]
    end: bool,
    #[command(flatten)]
    of: Of,
}

/// Runs the command.
pub(crate) fn main(args: &Args) -> u8 {
    let address = match args.address.as_deref().map(AddressRange::parse).transpose() {
        Ok(range) => range.map(|range| Addresses::new([range])),
        Err(why) => return outcome::usage(format!("--address: {why}")),
    };
    let protocol = match args.protocol.as_deref().map(|text| names::protocol(text).ok_or(text)) {
        Some(Err(text)) => {
            return outcome::usage(format!("--protocol: '{text}' is no protocol, as tcp or 6"));
        }
        Some(Ok(number)) => Some(names::protocol_name(number)),
        None => None,
    };
    let states = State::ALL.map(State::name);
    if let Some(state) = args.state.as_deref().filter(|state| !states.contains(state)) {
        return outcome::usage(format!("--state: '{state}' is none of {}", states.join(", ")));
    }
    let args = &Args { protocol, ..args.clone() };
    run(args, address.as_ref()).unwrap_or_else(|why| ctl::tell(&why))
}

fn is_chosen(args: &Args, address: Option<&Addresses>, session: &Session) -> bool {
    let ends: Vec<(IpAddr, u16)> = session.ends().collect();
    address.is_none_or(|addresses| ends.iter().any(|(address, _)| addresses.holds(*address)))
        && args.port.is_none_or(|wanted| ends.iter().any(|(_, port)| *port == wanted))
        && args.protocol.as_ref().is_none_or(|protocol| *protocol == session.protocol)
        && args.state.as_ref().is_none_or(|state| *state == session.state)
        && args.vrf.as_ref().is_none_or(|vrf| session.is_of_vrf(vrf))
}

fn run(args: &Args, address: Option<&Addresses>) -> Result<u8, Failure> {
    let mut client = args.of.client()?;
    let holder = Holder::find(&mut client, args.of.element.as_deref())?;
    let element = &holder.element;
    let (mut found, mut count, mut by_source) = (Vec::new(), 0u64, HashMap::<IpAddr, [u64; 3]>::new());
    let most = if args.limit == 0 { usize::MAX } else { args.limit };
    let needs_all = args.count || args.top.is_some() || args.end || args.of.json;
    view::sessions(&mut client, &holder, |session| {
        if is_chosen(args, address, &session) {
            count += 1;
            if args.top.is_some() {
                let sums = by_source.entry(session.source.0).or_default();
                sums[0] += session.bytes.iter().sum::<u64>();
                sums[1] += session.packets.iter().sum::<u64>();
                sums[2] += 1;
            } else if args.end || found.len() < most {
                found.push(session);
            }
        }
        needs_all || count <= found.len() as u64
    })?;
    if let Some(most) = args.top {
        let mut all: Vec<_> = by_source.into_iter().collect();
        all.sort_by_key(|(address, sums)| (std::cmp::Reverse(sums[0]), *address));
        all.truncate(most);
        if args.of.json {
            let one = |(address, [bytes, packets, sessions]): &(IpAddr, [u64; 3])| json!({ "source": address, "bytes": bytes, "packets": packets, "sessions": sessions });
            outln!("{}", json!({ "element": element, "top": all.iter().map(one).collect::<Vec<_>>() }));
        } else {
            outln!("{:>14} {:>12} {:>9}  source", "bytes", "packets", "sessions");
            for (address, [bytes, packets, sessions]) in &all {
                outln!("{bytes:>14} {packets:>12} {sessions:>9}  {address}");
            }
        }
        return Ok(exit::SUCCESS);
    }
    if args.end {
        for session in &found {
            client.write(&format!("{element}.end"), &session.end_words())?;
        }
        if args.of.json {
            outln!("{}", json!({ "element": element, "ended": found.len() }));
        } else {
            outln!("{} ended", found.len());
        }
        return Ok(exit::SUCCESS);
    }
    if args.of.json {
        let sessions = if args.count { Vec::new() } else { view::sessions_json(&found) };
        outln!("{}", json!({ "element": element, "count": count, "sessions": sessions }));
    } else if args.count {
        outln!("{count}");
    } else {
        out!("{}", view::sessions_text(&found));
        if count > found.len() as u64 {
            outln!("the first {most}; --limit 0 shows all");
        }
    }
    Ok(exit::SUCCESS)
}
