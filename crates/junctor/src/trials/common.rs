// SPDX-License-Identifier: MIT OR Apache-2.0
//! The options that many tests have in common.

use std::path::PathBuf;
use std::time::Duration;

use tester::genome::Genome;
use trials::agent::Agent;
use trials::device::{self, FlowLine, Name};
use trials::{common, modifiers, output, search, values};

use crate::stands_for::stands_for;

/// What all tests need to know.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Device")]
pub(super) struct Common {
    /// The device under test: self:CONF, kernel-router[:PORTS], kernel-bridge[:PORTS], passthrough, command:LINE,
    /// ports:IF1,IF2, agents:AGENT/IF1,AGENT/IF2, cable or veth.
    #[arg(value_name = "DEVICE", value_parser = Name::parse, help_heading = None)]
    device: Name,
    /// What drives the tester's ports where they are network interfaces: bpf has the kernel generate the frames.
    #[arg(long, value_enum, default_value_t = Driver::Auto)]
    driver: Driver,
    /// What a port sends, beyond what is known of the device; may be repeated.
    #[arg(long, value_name = "'PORT KEY=VALUE ...'", value_parser = FlowLine::parse)]
    flow: Vec<FlowLine>,
    /// The device is a bridge: frames are addressed to the hosts behind it.
    #[arg(long)]
    bridged: bool,
    /// Flows of IPv6, where the device does not say; and frame sizes that have room for them, where none are named.
    #[arg(long)]
    ipv6: bool,
    /// File with the key of the agents.
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// An agent on another machine of the test, such as the device: in each trial it reports what that machine counts; may be repeated.
    #[arg(long, value_name = "NAME=ADDRESS:PORT", value_parser = Agent::parse, requires = "key")]
    agent: Vec<Agent>,
    /// A file with the device's configuration, for the report (RFC 2544, section 7), where the tester does not see it.
    #[arg(long, value_name = "FILE", value_parser = text)]
    configuration: Option<String>,
    /// Seconds that the device may take until it forwards.
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = values::seconds)]
    warm_up: Duration,
    /// Only the first port sends.
    #[arg(long)]
    one_way: bool,
    /// Cores of the device: workers of self:CONF [default: 1]; cores that a command may use, or the kernel or the forwarder, which use
    /// one for each of two interfaces at most [default: all that are left]. Other devices take none of this machine's.
    #[arg(short = 'j', long = "threads", value_name = "WORKERS", value_parser = values::workers)]
    workers: Option<usize>,
    /// Seconds for which frames may still arrive after the last was sent [RFC 2544: 2].
    #[arg(long, value_name = "SECONDS", default_value = "2", value_parser = values::seconds)]
    stragglers: Duration,
    /// What makes the keys of the frames.
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    modifiers: Modifiers,
    #[command(flatten)]
    output: Output,
}

/// What is in a file.
fn text(file: &str) -> Result<String, String> {
    std::fs::read_to_string(file).map_err(|why| format!("cannot be read: {why}; name a text file"))
}

impl From<Common> for common::Common {
    fn from(args: Common) -> common::Common {
        common::Common {
            device: args.device,
            driver: args.driver.into(),
            flow: args.flow,
            bridged: args.bridged,
            ipv6: args.ipv6,
            both: false,
            key: args.key,
            agent: args.agent,
            configuration: args.configuration,
            warm_up: args.warm_up,
            one_way: args.one_way,
            workers: args.workers,
            stragglers: args.stragglers,
            seed: args.seed,
            modifiers: args.modifiers.into(),
            output: args.output.into(),
        }
    }
}

/// What drives the tester's ports, where they are network interfaces.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
#[value(rename_all = "snake_case")]
pub(super) enum Driver {
    /// The best that works.
    Auto,
    /// AF_XDP, in copy mode where the interface has no other.
    AfXdp,
    /// Packet sockets.
    AfPacket,
    /// Frames that the kernel generates (BPF_PROG_RUN); what arrives is received by the best of the others.
    Bpf,
}

stands_for!(Driver => device::Driver: Auto, AfXdp, AfPacket, Bpf);

/// How exactly a procedure is followed.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(super) enum Profile {
    /// Durations and repetitions of the documents: hours.
    Rfc,
    /// Short trials: a first impression in minutes.
    Quick,
}

stands_for!(Profile => search::Profile: Rfc, Quick);

/// What all these commands need.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Measurement")]
pub(super) struct Search {
    /// Frame sizes in bytes, with the 4 of the FCS [default: RFC 2544's with rfc, 64, 512 and 1518 with quick; with IPv6, for which 84
    /// is the least, 84 instead of 64 with rfc, 128 with quick]. What one size cannot do keeps no other from being measured.
    #[arg(long, value_name = "BYTES", value_delimiter = ',', value_parser = values::frame_size)]
    size: Vec<usize>,
    /// How exactly the procedure is followed.
    #[arg(long, value_enum, default_value_t = Profile::Quick)]
    profile: Profile,
    /// Seconds of each trial (of each burst and the wait after it; of the overload and the time after it; before and after a
    /// reset), instead of the profile's.
    #[arg(long, value_name = "SECONDS", value_parser = values::seconds)]
    trial: Option<Duration>,
    /// Seconds for which the device is left alone after each trial [default: 5 with rfc (RFC 2544 23 e), 0 with quick].
    #[arg(long, value_name = "SECONDS", value_parser = values::pause)]
    settle: Option<Duration>,
    /// Bits a second of the links: k, M and G may follow the number [default: no link limits the rate].
    #[arg(long, value_name = "RATE", value_parser = values::bits)]
    link: Option<f64>,
    /// How often the procedure is done for each size, for a comparison (junctor test compare).
    #[arg(long, value_name = "TIMES", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1000))]
    repeat: u16,
    /// Print every trial on standard error, as is done on a terminal.
    #[arg(short, long)]
    verbose: bool,
    #[command(flatten)]
    common: Common,
}

impl From<Search> for search::Search {
    fn from(args: Search) -> search::Search {
        search::Search {
            common: args.common.into(),
            size: args.size,
            profile: args.profile.into(),
            trial: args.trial,
            settle: args.settle,
            link: args.link,
            repeat: args.repeat,
            verbose: args.verbose,
        }
    }
}

/// Frames in addition to the test's (RFC 2544, section 11).
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(super) enum Beside {
    /// Every hundredth frame is a broadcast frame (11.1).
    Broadcast,
    /// A question by SNMP (version 1, community public) for the device's up-time and the counters of its interface 1, each second; the
    /// answers are verified (11.2).
    Management,
    /// RIP's updates at the start and each 30 s, by turns with routes to networks that the test does not use and without (11.3). With
    /// the profile rfc the first one comes 5 s before the test's frames.
    Routing,
}

stands_for!(Beside => modifiers::Beside: Broadcast, Management, Routing);

/// How what is sent differs from one size, one frame after the other.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Frames")]
pub(super) struct Modifiers {
    /// Frames of several sizes in this order, over and over, by the letters of RFC 6985: a 64, b 128, c 256, d 512, e 1024,
    /// f 1280, g 1518, h 2112, i 9000, j 16000 bytes, z the longest that the ports take. Capital letters are sizes of your own:
    /// 'AAAGg A=84 G=1020'. A number says how often a letter comes: 7a4d1g. Results have the average size in their names.
    #[arg(long, value_name = "GENOME", value_parser = Genome::parse)]
    imix: Option<Genome>,
    /// Frames leave in bursts of so many, as close as the tester can, at the same rate on average (RFC 2544, section 21).
    #[arg(long, value_name = "FRAMES", value_parser = clap::value_parser!(u64).range(1..=100_000))]
    burst: Option<u64>,
    /// Everything is done at a steady rate first, and then in bursts of each of these numbers of frames, with the rate as their average.
    /// Without a value, 16, 64, 256 and 1024 (RFC 2544, section 21). Results have burst_16 or the like in their names.
    #[arg(long, value_name = "FRAMES", value_delimiter = ',', num_args = 0.., require_equals = true,
          default_missing_values = ["16", "64", "256", "1024"], value_parser = clap::value_parser!(u64).range(2..=100_000),
          conflicts_with_all = ["burst", "networks", "filtering"])]
    bursts: Vec<u64>,
    /// Each flow has UDP ports drawn at random (RFC 4814).
    #[arg(long)]
    random_ports: bool,
    /// The Ethernet addresses of the tester's hosts are drawn at random, in the form (RR & 0xFC):PP:PP:RR:RR:RR of RFC 4814, 4.2. PP:PP is
    /// the number of the tester's port. The addresses are the same in all trials, and with the same seed again.
    #[arg(long)]
    random_macs: bool,
    /// Flows of each port: one is a single pair of addresses (RFC 2544, section 12) [default: all].
    #[arg(long, value_name = "FLOWS", value_parser = clap::value_parser!(u32).range(1..))]
    flows_per_port: Option<u32>,
    /// Each port sends to all others in turn, not as the flows say (RFC 2544, section 16).
    #[arg(long)]
    mesh: bool,
    /// Everything is done with one pair of addresses for each port first, and then with destinations chosen at random in so many
    /// networks, whose routes are set where the tester can (RFC 2544, section 12: 256). Results have one_pair or networks_N in
    /// their names.
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(2..=760), conflicts_with = "mesh")]
    networks: Option<u32>,
    /// Everything is done without filters first, then with one that permits the test's frames, with 25 of which only the
    /// thirteenth does (RFC 2544, section 11.4.1), and with 25 of which only the last does (11.4). In a configuration of this process the filters are an IPFilter or
    /// Classifier behind the element that checks IP headers, or, in a bridge, behind FromDevice. In the kernel they are nftables. Results have filters_1, filters_13_of_25 or filters_25 in their names. Frames that no filter permits
    /// are sent to see that the filters are in force.
    #[arg(long, conflicts_with = "networks", group = "filtering")]
    filters: bool,
    /// Everything is done without modifiers first, and then again with each of RFC 2544, section 11, by itself: broadcast frames,
    /// management frames and routing updates mixed with the test's, one filter, 25 filters in two orders. Results have broadcast, management,
    /// routing, filters_1, filters_13_of_25 or filters_25 in their names. What cannot be done on a device is said, and left out.
    #[arg(long, conflicts_with_all = ["networks", "beside"], group = "filtering")]
    each_modifier: bool,
    /// For --filters: a shell command that sets the filters of another device. JUNCTOR_FILTERS is how many there are to be (0, 1 or
    /// 25), JUNCTOR_FILTER_LIST names a file of them, one a line: 'deny ADDRESS to ADDRESS' or 'allow PREFIX to PREFIX' (for a
    /// bridge, 'deny MAC' or 'allow MAC/MASK'). What none permits must be dropped.
    #[arg(long, value_name = "COMMAND", requires = "filtering")]
    filter_command: Option<String>,
    /// What is sent in addition to the frames that are counted, in the place of some of them: rates are those of all (RFC 2544, section 11).
    #[arg(long, value_enum, value_name = "WHAT", value_delimiter = ',')]
    beside: Vec<Beside>,
}

impl From<Modifiers> for modifiers::Modifiers {
    fn from(args: Modifiers) -> modifiers::Modifiers {
        modifiers::Modifiers {
            imix: args.imix,
            burst: args.burst,
            bursts: args.bursts,
            random_ports: args.random_ports,
            random_macs: args.random_macs,
            flows_per_port: args.flows_per_port,
            mesh: args.mesh,
            networks: args.networks,
            filters: args.filters,
            each_modifier: args.each_modifier,
            filter_command: args.filter_command,
            beside: args.beside.into_iter().map(Into::into).collect(),
        }
    }
}

/// What is written, and where.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Results")]
pub(super) struct Output {
    /// Print one JSON object (docs/json.md, docs/schema/test.json).
    #[arg(long, conflicts_with = "markdown")]
    json: bool,
    /// Print the report as Markdown.
    #[arg(long)]
    markdown: bool,
    /// Write the report as a page for a browser, which needs nothing else.
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
    /// Write the results as comma-separated values.
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
}

impl From<Output> for output::Output {
    fn from(args: Output) -> output::Output {
        output::Output { json: args.json, markdown: args.markdown, report: args.report, csv: args.csv }
    }
}
