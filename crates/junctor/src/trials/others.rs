// SPDX-License-Identifier: MIT OR Apache-2.0
//! The options of single trials, of comparisons, and of agents and who asks them.

use std::path::PathBuf;
use std::time::Duration;

use trials::agent::{self, Duty};
use trials::{compare, trial, values};

use super::common::Common;

/// Send at one rate, and tell what became of the frames.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = super::help("What is told (names begin with test.):
  sent_mpps, received_mpps       frames sent and received by all ports, millions a second
  unsent_share                   of the frames that the schedule held, those that the tester did not send: its fault, no loss
  late_share                     of the frames that the schedule held, those that left the tester late, in lumps of more than a port
                                 may hold: its fault; where no more were lost, the loss is not the device's
  loss_share                     of the frames sent, those that did not arrive whole where they should
  vanished_share                 the same without those that came out elsewhere or damaged (unless these were copies)
  reordered, gaps, duplicates, stale, misrouted, damaged, old, foreign, missed, beside_unsent
                                 frames: overtaken in their flow; arrived twice; too late to tell; at a wrong port;
                                 the tester's by ports or addresses, but changed; of a trial before; not the tester's; lost by the tester's own ports on arrival
                                 (these count as not sent); beside the test's (--beside), due and not sent: the tester's fault
  latency_us.Q                   from a frame's departure to its arrival
  response_us.Q                  from when it was due: what a user sees who sends on time
  lateness_us.Q                  how late frames left the tester: its own error; Q is min, p50, p90, p99, p99.9, p99.99, p99.999,
                                 p99.9999 or max, and a quantile beyond which there is not one frame is left out
  gather.AGENT...                with agents, what their machines did while frames were sent (see junctor test gather)
  cable.mpps, cable.latency_us.p50
                                 what the tester reaches on a cable, measured before
What became of single flows stands in 'trials' of --json: of the 16 worst.
Where the tester did not send all that was due, the trial is marked as invalid, with the cause, and received_mpps as a lower
bound: of the device at this rate nothing is known. The exit status is 0 all the same, for the tester itself is measured so.

Examples:
  junctor test trial self:conf/ip-router.click --rate 1M
  junctor test trial cable --rate 10M --time 2 --json
  junctor test trial cable --rate 1G --one-way        what the tester reaches by itself
  junctor test trial self:conf/ip-router.click --rate 1M --repeat 5 --report trial.html
  sudo junctor test trial kernel-router --rate 200k
  sudo junctor test trial 'command:click -e \"FromDevice({IF1}, PROMISC true) -> Queue -> ToDevice({IF2})\"' --bridged --one-way
  sudo junctor test trial ports:eth1,eth2 --rate 1M --driver af_xdp
  junctor test trial agents:gen=10.0.0.1:7001/eth1,sink=10.0.0.3:7001/eth1 --key agents.key --one-way --rate 1M"))]
pub(super) struct Trial {
    /// Frame size in bytes, with the 4 of the FCS [default: 64, with --ipv6 84].
    #[arg(long, value_name = "BYTES", value_parser = values::frame_size)]
    size: Option<usize>,
    /// Frames a second that each sending port offers; k and M may follow the number.
    #[arg(long, value_name = "RATE", default_value = "100k", value_parser = values::rate, allow_negative_numbers = true)]
    rate: f64,
    /// For how many seconds; --trial is another name of it, as other tests have it.
    #[arg(long, alias = "trial", value_name = "SECONDS", default_value = "1", value_parser = values::seconds, allow_negative_numbers = true)]
    time: Duration,
    /// Bits a second of the links, which must carry that rate: k, M and G may follow the number [default: the interfaces' speed].
    #[arg(long, value_name = "RATE", value_parser = values::bits)]
    link: Option<f64>,
    /// How often, for a comparison (junctor test compare).
    #[arg(long, value_name = "TIMES", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1000))]
    repeat: u16,
    #[command(flatten)]
    common: Common,
}

impl From<Trial> for trial::Settings {
    fn from(args: Trial) -> trial::Settings {
        trial::Settings {
            common: args.common.into(),
            size: args.size,
            rate: args.rate,
            time: args.time,
            link: args.link,
            repeat: args.repeat,
        }
    }
}

/// Tell whether the second of two results is better than the first.
#[derive(Clone, Debug, clap::Args)]
#[command(
    after_help = "Each quantity that both have is compared by Welch's t-test on its runs: a confidence interval of the difference of the means,
and a p-value, corrected for the number of quantities (Holm). It is called better or worse if that is below 1 - confidence and the
means differ by more than the margin. A quantity with a single run on either side decides nothing: repeat tests with --repeat 5.
Rates of which the tester was the limit are lower bounds, and count only where a bound decides. What was measured at another load
than was asked for, because the tester did not send all of it or sent it in lumps (tester_limited), decides nothing. Quantities
that only one of the two has are named, and so is why not all was measured.

Exit status: 0 if nothing is worse; 1 if something is, if nothing can be told, or if B is incomplete: it lacks a quantity that A
has, or it failed and A did not; 2 if the two are unlike (procedure and its own demands, frame sizes, address family, modifiers,
links, profile, directions, lengths of trials, time for stragglers) or cannot be read. Devices, workers, drivers, machines and
versions may differ; that is said.

Examples:
  junctor test rfc2544 self:conf/ip-router.click --size 64 --repeat 5 --json > before.json
  junctor test rfc2544 self:new.click --size 64 --repeat 5 --json > after.json
  junctor test compare before.json after.json
  junctor test compare monday/campaign.json tuesday/campaign.json --margin 2 --json"
)]
pub(super) struct Compare {
    /// What was before: the JSON of a test or of a campaign.
    #[arg(value_name = "A.json")]
    a: PathBuf,
    /// What may be better.
    #[arg(value_name = "B.json")]
    b: PathBuf,
    /// Confidence in percent.
    #[arg(long, value_name = "PERCENT", default_value_t = 95.0, value_parser = confidence)]
    confidence: f64,
    /// Differences up to so many percent of A's mean count for nothing; a search is no finer than its resolution.
    #[arg(long, value_name = "PERCENT", default_value_t = 1.0, value_parser = margin)]
    margin: f64,
    /// Print one JSON object (docs/json.md).
    #[arg(long)]
    json: bool,
}

fn confidence(text: &str) -> Result<f64, String> {
    let value = text.parse().ok().filter(|value| (50.0..=99.99).contains(value));
    value.ok_or_else(|| "expected percent from 50 to 99.99".to_owned())
}

fn margin(text: &str) -> Result<f64, String> {
    let value = text.parse().ok().filter(|value| (0.0..=100.0).contains(value));
    value.ok_or_else(|| "expected percent from 0 to 100".to_owned())
}

impl From<Compare> for compare::Comparison {
    fn from(args: Compare) -> compare::Comparison {
        compare::Comparison {
            a: args.a,
            b: args.b,
            confidence: args.confidence,
            margin: args.margin,
            json: args.json,
        }
    }
}

/// Tell controllers what this machine counts, and send and receive for them, until stopped.
#[derive(Clone, Debug, clap::Args)]
#[command(
    after_help = "An agent tells packet counters of interfaces, processor time, interrupts and softirqs, read from /proc and /sys when asked, with the time.
For one controller at a time it also sends and receives the frames of a test (agents:..., see junctor test trial --help), which
needs root. It answers only who has the same key, and encrypts what it says (Noise NNpsk0); 16 controllers at a time have a place,
and who has not shown the key takes none. It stops sending when its controller
hangs up, or says nothing for 10 s in a trial.

Examples:
  junctor test agent --new-key agents.key        make a key; copy the file to all machines
  junctor test agent --key agents.key --listen 10.0.0.2:7001
  junctor test gather --key agents.key dut=10.0.0.2:7001 sink=10.0.0.3:7001 --time 10
  junctor test trial agents:10.0.0.1:7001/eth1,10.0.0.3:7001/eth1 --agent dut=10.0.0.2:7001 --key agents.key"
)]
pub(super) struct Agent {
    /// File with the key that controller and agents share.
    #[arg(long, value_name = "FILE", required_unless_present = "new_key")]
    key: Option<PathBuf>,
    /// Make a key, write it into this file, and end.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["key", "listen"])]
    new_key: Option<PathBuf>,
    /// Address and port to be called at; with port 0 a free one, which is printed.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:7001")]
    listen: String,
}

impl TryFrom<Agent> for Duty {
    type Error = &'static str;

    fn try_from(args: Agent) -> Result<Duty, &'static str> {
        match (args.new_key, args.key) {
            (Some(path), _) => Ok(Duty::MakeKey(path)),
            (None, Some(key)) => Ok(Duty::Serve { key, listen: args.listen }),
            (None, None) => Err("--key names the file of the key"),
        }
    }
}

/// Gather counters from agents ('junctor test agent') while something else is measured.
#[derive(Clone, Debug, clap::Args)]
#[command(
    after_help = "For each agent: what its interfaces received, sent and dropped a second, what its processors did, and which interrupts and softirqs there
were. Values are medians over the periods, with the least and the greatest behind them. Ctrl-C ends it early. An agent that is
lost is told, and the others go on; then the exit status is 1.

Examples:
  junctor test gather --key agents.key dut=10.0.0.2:7001
  junctor test gather --key agents.key generator=10.0.0.1:7001 dut=10.0.0.2:7001 --time 60 --period 5 --json"
)]
pub(super) struct Gather {
    /// Agents, with a name each if wanted.
    #[arg(value_name = "[NAME=]ADDRESS:PORT", required = true, value_parser = agent::Agent::parse)]
    agents: Vec<agent::Agent>,
    /// File with the key that controller and agents share.
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
    /// For how many seconds.
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = values::seconds)]
    time: Duration,
    /// Seconds between two readings.
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = values::seconds)]
    period: Duration,
    /// Print one JSON object (docs/json.md).
    #[arg(long)]
    json: bool,
}

impl From<Gather> for agent::Gather {
    fn from(args: Gather) -> agent::Gather {
        agent::Gather {
            agents: args.agents,
            key: args.key,
            time: args.time,
            period: args.period,
            json: args.json,
        }
    }
}
