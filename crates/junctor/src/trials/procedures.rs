// SPDX-License-Identifier: MIT OR Apache-2.0
//! The options of the procedures that go by frame size.

use std::time::Duration;

use trials::{mlr, reset, rfc2544, rfc2889, rfc5180, rfc8219, rfc9004, search, values};

use super::common::Search;
use crate::stands_for::stands_for;

/// A procedure of RFC 2544, section 26.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(super) enum Procedure {
    Throughput,
    Latency,
    Loss,
    BackToBack,
    Recovery,
    Reset,
}

stands_for!(Procedure => rfc2544::Procedure: Throughput, Latency, Loss, BackToBack, Recovery, Reset);

/// Throughput, latency, loss by load, bursts, recovery and reset, as RFC 2544 has them.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = super::help("What is told for each frame size (names begin with test.rfc2544.):
  throughput_mpps.SIZE      the greatest rate without loss, of each sending port (section 26.1)
  reached_mpps.SIZE         instead of it, if the tester could not send more: the device may be faster
  latency_us.tagged.SIZE    at that rate: the average over the tagged frames of each trial (section 26.2), and
  latency_us.average.SIZE   over all trials
  latency_us.Q.SIZE         of every frame of these trials; Q is min, p50, p90, p99, p99.9 ... p99.9999 or max, and
                            a quantile beyond which a trial had not one frame is left out
  latency_loss_share.SIZE   of the frames of these trials, those that were lost: their latency is not known
  response_us.Q.SIZE        the same from when frames were due: what a user sees who sends on time
  lateness_us.Q.SIZE        how late frames left the tester: its own error
  loss_share.SIZE.PERCENT   at shares of the greatest rate (section 26.3)
  burst_frames.SIZE         the longest burst without loss, of each repetition (section 26.4), and
  burst_frames.average.SIZE   on average
  recovery_ms.SIZE          from the end of an overload to the last loss (section 26.5), and
  recovery_ms.average.SIZE    on average
  reset_ms.METHOD.SIZE      how long forwarding stops for a reset, by_loss or by_timestamps (section 26.6, RFC 6201); of the
                            least size only
  reset_lost_frames.SIZE, reset_interruptions.SIZE
                            frames lost for a reset, and how often forwarding stopped
What the documents ask for and was not done is listed.

Examples:
  junctor test rfc2544 self:conf/ip-router.click --size 64
  junctor test rfc2544 self:conf/ip-router.click --link 10G --loss --report router.html --csv router.csv
  junctor test rfc2544 self:conf/ip-router.click --profile rfc --link 10G --json
  junctor test rfc2544 self:conf/ip-router.click --only reset --at 100k --reset swap
  sudo junctor test rfc2544 kernel-bridge --size 64,1518 --only throughput"))]
pub(super) struct Rfc2544 {
    #[command(flatten)]
    wanted: Wanted,
    #[command(flatten)]
    search: Search,
}

impl From<Rfc2544> for rfc2544::Rfc2544 {
    fn from(args: Rfc2544) -> rfc2544::Rfc2544 {
        rfc2544::Rfc2544 { search: args.search.into(), wanted: args.wanted.into() }
    }
}

/// Which of RFC 2544's procedures are done, and how.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Procedures")]
pub(super) struct Wanted {
    /// Which procedures are done [default: throughput and latency; with --profile rfc all, a reset where it is known how].
    #[arg(long, value_enum, value_name = "PROCEDURE", value_delimiter = ',')]
    only: Vec<Procedure>,
    /// Measure loss by load too.
    #[arg(long)]
    loss: bool,
    /// The throughput in frames a second of each sending port, if it is known: it is not searched for.
    #[arg(long, value_name = "RATE", value_parser = values::rate)]
    at: Option<f64>,
    #[command(flatten)]
    bursts: Bursts,
    #[command(flatten)]
    reset: Reset,
}

impl From<Wanted> for rfc2544::Wanted {
    fn from(args: Wanted) -> rfc2544::Wanted {
        rfc2544::Wanted {
            only: args.only.into_iter().map(Into::into).collect(),
            loss: args.loss,
            at: args.at,
            bursts: args.bursts.into(),
            reset: args.reset.into(),
        }
    }
}

/// What is done to a configuration in this process.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(super) enum ConfigurationReset {
    /// It is ended, and built and started anew.
    Restart,
    /// It is swapped for itself while it runs.
    Swap,
    /// One of its workers (-j) is retired and added again.
    Worker,
}

stands_for!(ConfigurationReset => reset::ConfigurationReset: Restart, Swap, Worker);

/// What is reset, in the classes of RFC 6201.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(super) enum What {
    RouteProcessor,
    LineCard,
    OperatingSystem,
    Process,
    Power,
}

stands_for!(What => reset::What: RouteProcessor, LineCard, OperatingSystem, Process, Power);

/// How the device is reset.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Resets")]
pub(super) struct Reset {
    /// How a configuration in this process is reset.
    #[arg(long, value_enum, default_value_t = ConfigurationReset::Restart)]
    reset: ConfigurationReset,
    /// A shell command that resets the device, instead; any device but self:CONF needs it.
    #[arg(long, value_name = "COMMAND")]
    reset_command: Option<String>,
    /// What that command resets, for the report (RFC 6201, section 4).
    #[arg(long, value_enum, value_name = "WHAT", default_value_t = What::Process)]
    reset_kind: What,
}

impl From<Reset> for reset::Method {
    fn from(args: Reset) -> reset::Method {
        reset::Method {
            reset: args.reset.into(),
            reset_command: args.reset_command,
            reset_kind: args.reset_kind.into(),
        }
    }
}

/// A procedure of RFC 2889, section 5.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(super) enum OfBridge {
    Forwarding,
    Addresses,
    Errored,
    Broadcast,
}

stands_for!(OfBridge => rfc2889::Procedure: Forwarding, Addresses, Errored, Broadcast);

/// Forwarding, address caching and learning, errored frames and broadcast of a bridge, as RFC 2889 has them.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "What is told for each frame size (names begin with test.rfc2889.):
  throughput_mpps.SIZE      the greatest rate without loss of each port, when all talk to all (section 5.1)
  reached_mpps.SIZE         instead of it, if the tester could not send more: the bridge may be faster
  forwarding_mpps.SIZE, offered_mpps.SIZE
                            what comes through of the greatest load, and that load, all ports together (section 5.1: FRMOL, MOL)
  max_forwarding_mpps.SIZE, max_forwarding_offered_mpps.SIZE
                            the same at that load between throughput and greatest at which the most comes through (MFR)
  caching_capacity.SIZE     addresses that the bridge remembers (section 5.7)
  learning_rate.SIZE        addresses a second that it learns (section 5.8)
  errored.KIND.SIZE         share of frames that ought not to pass which did (section 5.9): oversize, undersize
  broadcast.throughput_mpps.SIZE, broadcast.reached_mpps.SIZE
                            the greatest rate without loss of frames from one port to all others (section 5.10)
  broadcast.latency_us.Q.SIZE   of these, by quantile
Addresses need three ports. Between lessons the bridge must forget: a configuration in this process is started anew, the kernel's
bridge has its table emptied, for others say how (--forget-command, --ageing).

Examples:
  junctor test rfc2889 self:conf/bridge.click --size 64
  junctor test rfc2889 self:conf/bridge-mesh.click --only addresses --addresses 65536 --json
  sudo junctor test rfc2889 kernel-bridge:4 --size 64,1518")]
pub(super) struct Rfc2889 {
    /// Which procedures are done [default: all that the number of ports allows].
    #[arg(long, value_enum, value_name = "PROCEDURE", value_delimiter = ',')]
    only: Vec<OfBridge>,
    /// Addresses that are tried at most [default: 16384 with quick, 262144 with rfc].
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..=1_048_576))]
    addresses: Option<u64>,
    /// Learning frames a second while addresses are counted.
    #[arg(long, value_name = "RATE", default_value = "10k", value_parser = values::rate)]
    learning_rate: f64,
    /// A shell command that empties the bridge's table.
    #[arg(long, value_name = "COMMAND")]
    forget_command: Option<String>,
    /// Seconds after which the bridge has forgotten, if there is no such command.
    #[arg(long, value_name = "SECONDS", value_parser = values::seconds)]
    ageing: Option<Duration>,
    #[command(flatten)]
    search: Search,
}

impl From<Rfc2889> for rfc2889::Rfc2889 {
    fn from(args: Rfc2889) -> rfc2889::Rfc2889 {
        rfc2889::Rfc2889 {
            search: args.search.into(),
            only: args.only.into_iter().map(Into::into).collect(),
            addresses: args.addresses,
            learning_rate: args.learning_rate,
            forget_command: args.forget_command,
            ageing: args.ageing,
        }
    }
}

/// Under what the procedures are done.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(super) enum Condition {
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

stands_for!(
    Condition => rfc5180::Condition:
    Plain, Routing, Destination, Fragment, Authentication, Chain, HopByHop, Ipv4, Ipv4_90, Ipv4_50, Ipv4_10
);

/// IPv6 with and without extension headers, and mixed with IPv4, as RFC 5180 has it.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = super::help("What is told for each condition and frame size (names begin with test.rfc5180.CONDITION.) is named as test rfc2544
names it: throughput_mpps.SIZE and so on. Conditions are plain, routing, destination, fragment, authentication, chain (a
routing, a destination options and a fragment header), ipv4, ipv4_90, ipv4_50 and ipv4_10 (so many percent of the frames
are IPv4), and hop_by_hop, of which is told instead:
  loss_share.SIZE.PERCENT         at 1, 10 and 50 % of the greatest rate
  latency_us.p99.SIZE.PERCENT     of the frames that came through
  device_load_share.SIZE.PERCENT  of the device's processors meanwhile, where they are known: 1 is all of their time
IPv4 beside IPv6 takes a device of a rig; one whose flows are given has those of one family.

Examples:
  junctor test rfc5180 self:conf/ip6-router.click
  sudo junctor test rfc5180 kernel-router --size 128 --under plain,chain,ipv4-50
  sudo junctor test rfc5180 kernel-router --profile rfc --link 10G --json"))]
pub(super) struct Rfc5180 {
    /// Under which conditions [default: all with --profile rfc, with quick plain, chain and hop-by-hop].
    #[arg(long, value_enum, value_name = "CONDITION", value_delimiter = ',')]
    under: Vec<Condition>,
    #[command(flatten)]
    wanted: Wanted,
    #[command(flatten)]
    search: Search,
}

impl From<Rfc5180> for rfc5180::Rfc5180 {
    fn from(args: Rfc5180) -> rfc5180::Rfc5180 {
        rfc5180::Rfc5180 {
            search: args.search.into(),
            under: args.under.into_iter().map(Into::into).collect(),
            wanted: args.wanted.into(),
        }
    }
}

/// Latency and delay variation, as RFC 8219 has them.
#[derive(Clone, Debug, clap::Args)]
#[command(
    after_help = "What is told for each frame size (names begin with test.rfc8219.); each value is the median over the trials:
  latency_us.typical.SIZE   the median of the latencies of 500 tagged frames (section 7.2)
  latency_us.worst.SIZE     their 99.9th percentile
  response_us.Q.SIZE        of every frame of the trials of latency, from when it was due; and
  lateness_us.Q.SIZE        how late it left the tester: its own error
  latency_loss_share.SIZE, variation_loss_share.SIZE
                            of the frames of these trials, those that were lost
  pdv_us.SIZE               the 99.9th percentile of all frames' delays less the least delay (section 7.3.1)
  ipdv_us.V.SIZE            how the delays of successive frames differ: min, median, max, mean_absolute (section 7.3.2)
The rate is the throughput, which is searched for as test rfc2544 does and told by the same names, unless --at names it.

Examples:
  junctor test rfc8219 self:conf/ip-router.click --size 64
  junctor test rfc8219 self:conf/ip6-router.click --ipv6 --profile rfc --at 1M --json"
)]
pub(super) struct Rfc8219 {
    /// Frames a second of each sending port [default: the throughput, which is searched for].
    #[arg(long, value_name = "RATE", value_parser = values::rate)]
    at: Option<f64>,
    #[command(flatten)]
    search: Search,
}

impl From<Rfc8219> for rfc8219::Rfc8219 {
    fn from(args: Rfc8219) -> rfc8219::Rfc8219 {
        rfc8219::Rfc8219 { search: args.search.into(), at: args.at }
    }
}

/// How bursts are judged.
#[derive(Clone, Copy, Debug, clap::Args)]
#[command(next_help_heading = "Bursts")]
pub(super) struct Bursts {
    /// A burst fails if it loses frames so many times in a row: what chance takes is forgiven (RFC 9004 5: binary search
    /// with loss verification, as ETSI GS NFV-TST 009 has it).
    #[arg(long, value_name = "TIMES", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    loss_verification: u32,
}

impl From<Bursts> for rfc9004::Bursts {
    fn from(args: Bursts) -> rfc9004::Bursts {
        rfc9004::Bursts { loss_verification: args.loss_verification }
    }
}

/// Bursts, and the buffer that they show, as RFC 9004 has it.
#[derive(Clone, Debug, clap::Args)]
#[command(
    after_help = "What is told for each frame size whose throughput is below the greatest rate (names begin with test.rfc9004.):
  burst_frames.SIZE, burst_frames.average.SIZE
                            the longest burst without loss, of each repetition and on average
  implied_buffer_us.SIZE    how long it takes
  corrected_buffer_us.SIZE  the same less what the device forwarded meanwhile
  buffer_frames.SIZE        the buffer that this comes to
  longest_frames.SIZE       the longest that was tried
The throughput is searched for as test rfc2544 does and told by the same names, unless --at names it.

Examples:
  junctor test rfc9004 self:conf/ip-router.click --size 64 --link 10G
  junctor test rfc9004 self:conf/ip-router.click --profile rfc --at 1M --link 10G --json
  junctor test rfc9004 self:conf/ip-router.click --size 64 --link 10G --loss-verification 3"
)]
pub(super) struct Rfc9004 {
    /// The throughput in frames a second of each sending port, if it is known: it is not searched for.
    #[arg(long, value_name = "RATE", value_parser = values::rate)]
    at: Option<f64>,
    #[command(flatten)]
    bursts: Bursts,
    #[command(flatten)]
    search: Search,
}

impl From<Rfc9004> for rfc9004::Rfc9004 {
    fn from(args: Rfc9004) -> rfc9004::Rfc9004 {
        rfc9004::Rfc9004 { search: args.search.into(), at: args.at, bursts: args.bursts.into() }
    }
}

/// NDR and PDR, or other goals, by multiple loss ratio search (RFC 9971).
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = super::help("What is told for each frame size and goal (names begin with test.mlr.):
  throughput_mpps.GOAL.SIZE   the conditional throughput of each sending port; GOAL is ndr, or pdr (loss up to 0.5 %), or has
                              the name that --goal gives it
  reached_mpps.GOAL.SIZE      instead of it, if the tester could not send more, or the search did not come to its end: the device
                              may be faster
  lower_bound_mpps.GOAL.SIZE, upper_bound_mpps.GOAL.SIZE
                              the relevant bounds: rates offered that the device carries, and that are too much

A goal's words: loss=PERCENT of a trial that is good, exceed=PERCENT of the time that may go to others, width=PERCENT within which
the bounds come, initial=SECONDS of the first trials, final=SECONDS of those that count in full, sum=SECONDS for each rate.
Without a word: loss=0 exceed=50 width=0.5 initial=1 final=1 sum=21.

Examples:
  junctor test mlr self:conf/ip-router.click --size 64
  junctor test mlr cable --size 64,1518 --json
  junctor test mlr self:conf/ip-router.click --goal 'ndr exceed=0 final=60 sum=60' --goal 'pdr1 loss=1 width=0.1'
  sudo junctor test mlr passthrough --size 64 --one-way"))]
pub(super) struct Mlr {
    /// What is searched for, instead of ndr and pdr; may be repeated.
    #[arg(long, value_name = "'NAME KEY=VALUE ...'", value_parser = mlr::Named::parse)]
    goal: Vec<mlr::Named>,
    #[command(flatten)]
    search: Search,
}

impl From<Mlr> for mlr::Mlr {
    fn from(args: Mlr) -> mlr::Mlr {
        mlr::Mlr { search: args.search.into(), goal: args.goal }
    }
}

/// One rate for a long time, and when frames were lost.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = super::help("What is told for each frame size (names begin with test.soak.):
  sent_frames, lost_frames, loss_share, unsent_share   of the whole time, of all ports
  bins, bins_with_loss                                 intervals, and in how many of them frames were lost
  worst_bin_loss_share                                 the greatest share lost in an interval
  first_loss_s                                         if frames were lost
  longest_clean_s                                      the longest time without loss
A soak of which the tester did not send all is marked as invalid, with the cause.
With --json, 'bins' lists every interval that saw loss. Frames count when they were sent.

Examples:
  junctor test soak self:conf/ip-router.click --rate 100k --time 3600
  junctor test soak self:conf/ip-router.click --rate 1M --time 60 --bin 0.1 --json"))]
pub(super) struct Soak {
    /// Frames a second that each sending port offers; k and M may follow the number.
    #[arg(long, value_name = "RATE", value_parser = values::rate)]
    rate: f64,
    /// For how many seconds [default: an hour with --profile rfc, a minute with quick].
    #[arg(long, value_name = "SECONDS", value_parser = values::seconds)]
    time: Option<Duration>,
    /// Width of an interval in seconds [default: 1 for an hour, 0.1 for a minute].
    #[arg(long, value_name = "SECONDS", value_parser = values::seconds)]
    bin: Option<Duration>,
    #[command(flatten)]
    search: Search,
}

impl From<Soak> for search::Soak {
    fn from(args: Soak) -> search::Soak {
        search::Soak { search: args.search.into(), rate: args.rate, time: args.time, bin: args.bin }
    }
}
