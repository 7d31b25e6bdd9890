// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor trace`: the options of packets that are followed element by element, by the crate `trace`.

use std::path::PathBuf;
use std::time::Duration;

use ::trace::{Error, Following, Output, Packets};
use client::Failure;
use manage::remote::Service;
use serde_json::json;

use crate::ctl::{self, Which};
use crate::remote::{self, Remote};
use crate::{exit, outcome};

/// For how long packets are followed over a management API, if nothing else is said.
const REMOTE_S: u64 = 10;

/// Follow packets through a running router, element by element.
///
/// For each packet it shows which elements it comes to, by which port, and what they change in it, field by field. It also shows where the packet ends: sent, dropped (with the
/// reason, as in 'junctor drops --list'), or still held. Its copies are followed, too, behind queues and on other workers.
///
/// With --packet, --hex or --pcap a packet of your own goes through the live elements and tables, and nothing comes of it: nothing is sent, counted or learnt.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:
  junctor trace                                     the next packets, whichever come
  junctor trace 'icmp and host 10.0.1.9' --count 3   the next 3 that match
  junctor trace --at rt 'udp port 53' --time 10s    those that come to element rt within 10 seconds
  junctor trace --at rt --packet 'ip 10.0.0.1 to 10.0.1.9 ttl 1 / udp 1000 to 53'
  junctor trace --at in --packet 'eth 2:0:0:0:0:9 to 2:0:0:0:0:1 / ip 10.0.0.1 to 10.0.1.9 / icmp echo'
  junctor trace --at in --pcap odd.pcap --json      each packet of a file, as if it came by in
  junctor trace --remote https://router.example:8473/edge --token token.txt icmp")]
pub(crate) struct Args {
    /// Which packets, as for tcpdump (needs the machine's libpcap); any if it is left out.
    #[arg(value_name = "FILTER", conflicts_with = "trial")]
    filter: Vec<String>,
    /// Follow packets from this input of an element on, or from all of its inputs if none is named, and not from where they come into the router. A packet of your own begins there (at input 0
    /// if none is named), or at a source: one that FromDevice would not
    /// take, because it is for another host or refused by its filter, ends there. Of packets that come, what a source drops itself is not followed: see 'junctor capture --drops'.
    #[arg(long, value_name = "ELEMENT[:PORT]")]
    at: Option<String>,
    /// How many packets to follow, 10 if it is left out; of a capture file, how many to try, all if it is left out.
    #[arg(long, short, value_name = "N", conflicts_with_all = ["packet", "hex"], value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// For how long; without it until all packets have come and ended. It ends, too, when they stand still for 2 seconds and all have come or no more can be followed: 7 can be at a time,
    /// by all traces and by recordings that wait for latency ('junctor profile record --until') together. With --remote it is 10 s if it is left out.
    #[arg(long, value_name = "TIME", conflicts_with = "trial")]
    time: Option<String>,
    #[command(flatten)]
    trial: Trial,
    #[command(flatten)]
    router: Which,
    #[command(flatten)]
    remote: Remote,
    /// The socket of the control plane that names the routes which packets have followed, or none; by default, that of the only one of this user. It is asked when a packet is printed.
    #[arg(long, value_name = "PATH")]
    routes: Option<PathBuf>,
    /// Print a line of JSON for each packet.
    #[arg(long)]
    json: bool,
}

/// A packet that is only tried.
#[derive(Clone, Debug, clap::Args)]
#[group(id = "trial", multiple = false)]
struct Trial {
    /// Try this packet: headers from the outside in, separated by slashes, such as 'eth A to B / vlan 5 / ip A to B ttl 9 / udp 1 to 2 / payload 20'. Others: arp, ip6, tcp,
    /// icmp, icmp6, hex. Settings of eth: type N. Of vlan: pcp N, type N. Of arp: request|reply, mac M, target M. Of ip: ttl N, tos N, id N, proto N, df, mf,
    /// offset BYTES, checksum N. Of ip6: hlim N, class N, flow N, proto N. Of udp: checksum N. Of tcp: flags LETTERS, seq N, ack N, win N. Of icmp and icmp6:
    /// echo|reply|type N, code N, id N, seq N.
    #[arg(long, value_name = "HEADERS", help_heading = "Packets of your own")]
    packet: Option<String>,
    /// Try the packet of these bytes.
    #[arg(long, value_name = "DIGITS", help_heading = "Packets of your own")]
    hex: Option<String>,
    /// Try the packets of a capture file (pcap or pcapng, that begin with Ethernet or IP), one after the other.
    #[arg(long, value_name = "FILE", help_heading = "Packets of your own")]
    pcap: Option<PathBuf>,
}

/// Runs the command.
pub(crate) fn main(args: &Args) -> u8 {
    let time = match outcome::time_above_0(args.time.as_deref(), "5s") {
        Ok(time) => time,
        Err(why) => return outcome::usage(why),
    };
    match args.remote.service().map_err(Failure::Unclear) {
        Ok(None) => {}
        Ok(Some(service)) => return from_afar(args, &service, time).unwrap_or_else(|why| ctl::tell(&why)),
        Err(why) => return ctl::tell(&why),
    }
    told(args.trial.packets().and_then(|packets| {
        let mut client = args.remote.client(&args.router)?;
        let out = Output::new(args.json, args.routes.as_deref(), &mut client)?;
        match packets {
            Some(packets) => {
                ::trace::try_packets(packets, (args.at.as_deref(), args.count), &mut client, out)
            }
            None => {
                let filter = args.filter.join(" ");
                let following = Following { filter, at: args.at.clone(), count: args.count, time };
                ::trace::follow(&following, client, out)
            }
        }
    }))
}

/// Has the machine of a router follow packets, and prints what it has seen when that is done.
fn from_afar(args: &Args, service: &Service, time: Option<Duration>) -> Result<u8, Failure> {
    let unclear = |why: &str| Err(Failure::Unclear(why.to_owned()));
    if args.router.is_named() || args.routes.is_some() {
        return unclear(
            "--remote means another machine, so leave --socket, --pid, --channel and --routes out",
        );
    }
    if args.trial.pcap.is_some() {
        return unclear("--pcap is not for --remote; try its packets one by one by --hex");
    }
    let Some(seconds) =
        time.map_or(Some(REMOTE_S), |time| (time.subsec_nanos() == 0).then_some(time.as_secs()))
    else {
        return unclear("with --remote, --time takes whole seconds");
    };
    let is_own = args.trial.packet.is_some() || args.trial.hex.is_some();
    let filter = Some(args.filter.join(" ")).filter(|filter| !filter.is_empty());
    let body = json!({
        "filter": filter, "at": args.at, "packet": args.trial.packet, "hex": args.trial.hex,
        "count": args.count.filter(|_| !is_own), "time_s": (!is_own).then_some(seconds),
        "format": if args.json { "json" } else { "text" },
    });
    let router = service.router().map_err(remote::failure)?;
    let ended = remote::job(service, &format!("{router}/traces"), &body)?;
    err!("{}", ended.words);
    let printed = outcome::print_or_fail(&ended.result);
    Ok(if ended.status == exit::SUCCESS { printed } else { ended.status })
}

impl Trial {
    /// What is to be tried; nothing if no packet is given.
    fn packets(&self) -> Result<Option<Packets>, Error> {
        match (&self.packet, &self.hex, &self.pcap) {
            (Some(headers), ..) => Packets::composed(headers).map(Some),
            (_, Some(digits), _) => Packets::of_digits(digits).map(Some),
            (.., Some(file)) => Packets::of_file(file).map(Some),
            (None, None, None) => Ok(None),
        }
    }
}

/// Says what went wrong; returns the exit status.
pub(crate) fn told(done: Result<(), Error>) -> u8 {
    match done {
        Ok(()) => exit::SUCCESS,
        Err(Error::Router(why)) => ctl::tell(&why),
        Err(why @ Error::Usage(_)) => outcome::usage(why),
        Err(why) => outcome::fail(why),
    }
}
