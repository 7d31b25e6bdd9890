// SPDX-License-Identifier: MIT OR Apache-2.0
//! The options of `junctor bench nat`.

use bench::Failure;
use bench::nat::{self, flood, peer};

use super::{measured, show};
use crate::stands_for::stands_for;

/// Measure an address translator: new sessions a second, packets of established sessions, memory, and sessions that expire at once.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "What is measured (names end in .SESSIONS):
  nat.setup_per_s        new sessions a second, from an empty table
  nat.setup_again_per_s  the same in a table that was full before, so that it has its memory
  nat.setup_batch_us_max the longest batch of first packets, which may wait for a table that grows
  nat.ns_per_packet      a packet of an established session: sessions at random, half of the batches in each direction
  nat.bytes_per_session  growth of the process
  nat.expiry.batch_us    a batch while nine of ten sessions expire at once: the mean; .batch_us_max the worst, .quiet_us before
  nat.expiry.ns_per_session  what the end of a session takes
  nat.chain_ns_per_packet    the same as nat.ns_per_packet in a chain of elements, in one direction, up to 65536 sessions
With --workers N, N workers with one table, compared with one worker alone:
  nat.scaling_N.apart    each has sessions of its own; .across: all have the same ones, each in one direction
  nat.setup_scaling_N    new sessions
With --of firewall, names begin with nat.firewall. instead: hosts inside may connect to those outside. With --of balance, they begin
with nat.balance.: hosts are clients of a service with 100 servers. Neither has a chain, and the load balancer has one worker.
With --peer, on virtual cables (names begin with nat.peer.):
  setup_per_s.WHO, pps.WHO     new sessions and forwarded packets a second of 'junctor' and 'nftables'; next to setup_sent_per_s
                               and sent_pps, which were sent
  setup_over_nftables, pps_over_nftables  the ratio in the same run

Examples:
  junctor bench nat
  junctor bench nat --hosts 1024 --protocol tcp --json
  junctor bench nat --full --runs 3
  junctor bench nat --of firewall --workers 2
  sudo junctor bench nat --peer --hosts 1024
  junctor bench nat --flood --only churn")]
pub(super) struct Nat {
    /// Whose sessions are measured.
    #[arg(long, value_enum, default_value = "nat44", conflicts_with_all = ["peer", "flood"])]
    of: Of,
    /// Inside hosts of each shape [default: 1024,4096,16384; with --peer 1024].
    #[arg(long, value_name = "NUMBER,...", value_delimiter = ',', conflicts_with = "full")]
    hosts: Vec<usize>,
    /// Measure also 65536 and 262144 hosts: up to 16515072 sessions, some 8 GB of memory and minutes.
    #[arg(long)]
    full: bool,
    /// Sessions of each host.
    #[arg(long, value_name = "NUMBER", default_value_t = nat::PORTS)]
    ports: u16,
    /// The protocol of all packets.
    #[arg(long, value_enum, default_value = "udp")]
    protocol: Protocol,
    /// How hosts get outside ports.
    #[arg(long, value_enum, default_value = "random")]
    allocation: Allocation,
    /// Packets of a batch.
    #[arg(long, value_name = "PACKETS", default_value_t = engine::DEFAULT_BURST)]
    burst: usize,
    /// Packets of established sessions in each run.
    #[arg(long, value_name = "NUMBER", default_value_t = 1 << 20)]
    packets: usize,
    /// Measured runs of each shape.
    #[arg(long, value_name = "NUMBER", default_value_t = 5)]
    runs: usize,
    /// Length of a run through elements or cables, in milliseconds [default: 200, with --peer 2000, with --flood 500].
    #[arg(long, value_name = "MS")]
    run_ms: Option<u64>,
    /// Measure also several workers with one table, each on a core: a number, or cores as in '2,3'.
    #[arg(long, value_name = "CORES", conflicts_with_all = ["peer", "flood"])]
    workers: Option<String>,
    /// Compare a whole gateway with nftables, in network namespaces on virtual cables. Needs root.
    #[arg(long)]
    peer: bool,
    /// Measure instead what an inside host that opens flows without end leaves to established flows.
    #[arg(long, conflicts_with_all = ["hosts", "full", "peer"])]
    flood: bool,
    /// With --flood: packets of established flows offered, as a share of what the translator forwards when nothing else comes.
    #[arg(long, value_name = "SHARE", default_value_t = 0.3, requires = "flood")]
    load: f64,
    /// With --flood: only cases whose name begins so: full (all ports in use), limit (the host at its limit), churn (new flows in
    /// the places of others).
    #[arg(long, value_name = "NAME", default_value = "", requires = "flood")]
    only: String,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

/// Whose sessions are measured.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Of {
    /// Those of an address translator.
    Nat44,
    /// Those of a firewall: its connections.
    Firewall,
    /// Those of a load balancer that translates addresses.
    Balance,
}

stands_for!(Of => nat::Of: Nat44, Firewall, Balance);

/// The protocol of sessions.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Protocol {
    /// UDP: open when both sides have sent.
    Udp,
    /// TCP: open after three packets.
    Tcp,
}

stands_for!(Protocol => nat::Protocol: Udp, Tcp);

/// How hosts get outside ports.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Allocation {
    /// Any free port; half of all are in use.
    Random,
    /// In blocks of 64; half of all are in use.
    Block,
    /// As many as a host has sessions, by its address.
    Deterministic,
}

stands_for!(Allocation => nat::Allocation: Random, Block, Deterministic);

impl From<Nat> for nat::Settings {
    fn from(args: Nat) -> nat::Settings {
        let count = match (args.full, args.peer) {
            (true, _) => nat::HOSTS.len(),
            (false, true) => 1,
            (false, false) => nat::QUICK,
        };
        nat::Settings {
            of: args.of.into(),
            hosts: if args.hosts.is_empty() { nat::HOSTS[..count].to_vec() } else { args.hosts },
            ports: args.ports,
            protocol: args.protocol.into(),
            allocation: args.allocation.into(),
            burst: args.burst,
            packets: args.packets,
            runs: args.runs,
            run_ms: args.run_ms.unwrap_or(if args.peer { 2000 } else { 200 }),
            cores: Vec::new(),
        }
    }
}

impl From<Nat> for flood::Settings {
    fn from(args: Nat) -> flood::Settings {
        let run_ms = args.run_ms.unwrap_or(500);
        flood::Settings { load: args.load, runs: args.runs, run_ms, only: args.only }
    }
}

impl Nat {
    /// Measures, and prints what was found; returns the exit status.
    pub(super) fn run(self) -> u8 {
        let json = self.json;
        match (self.flood, self.peer) {
            (true, _) => measured("bench nat --flood", json, self, flood::measure),
            (false, true) => show("bench nat --peer", self.compared(), json),
            (false, false) => show("bench nat", self.alone(), json),
        }
    }

    /// The translator alone, perhaps with several workers.
    fn alone(self) -> Result<bench::Findings, Failure> {
        let cores = match &self.workers {
            None => Vec::new(),
            Some(words) => match conf::cores::parse(words).map_err(Failure::usage)? {
                (n, cores) if n > 1 && cores.len() >= n => cores[..n].to_vec(),
                (_, cores) => {
                    let have = cores.len();
                    let why = format!(
                        "--workers {words}: give 2 workers or more, and a core for each; there are {have}"
                    );
                    return Err(Failure::usage(why));
                }
            },
        };
        nat::measure(&nat::Settings { cores, ..self.into() })
    }

    fn compared(self) -> Result<bench::Findings, Failure> {
        let quiet = self.json;
        peer::measure(&self.into(), &mut |line| {
            if !quiet {
                errln!("{line}");
            }
        })
    }
}
