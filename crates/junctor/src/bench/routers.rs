// SPDX-License-Identifier: MIT OR Apache-2.0
//! The options of benchmarks of whole routers: floods, tunnels, routes, starts.

use std::path::PathBuf;

use bench::{feed, flood, ipsec, live, start};

use super::{show, tell};
use crate::{exit, outcome};

/// Measure how fast routes of a daemon reach the forwarding table, and how fast a next hop of all routes is repaired.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:
  junctor bench feed
  junctor bench feed --routes table.txt.xz --json")]
pub(super) struct Feed {
    /// IPv4 routes, in any form that 'junctor fib' reads; without it, the shared real table, or a generated one.
    #[arg(long, value_name = "FILE")]
    routes: Option<PathBuf>,
    /// Rounds, each with new tables.
    #[arg(long, value_name = "NUMBER", default_value_t = 5)]
    runs: usize,
    /// Print the result as JSON.
    #[arg(long)]
    pub(super) json: bool,
}

impl From<Feed> for feed::Settings {
    fn from(args: Feed) -> feed::Settings {
        feed::Settings { routes: args.routes, runs: args.runs }
    }
}

/// Measure what floods leave of legitimate traffic: a router of three in-memory interfaces on one worker, legitimate packets at a
/// fixed rate by one, a flood by another.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:
  junctor bench flood
  junctor bench flood --only unresolvable --load 0.3 --json
  junctor bench flood --only unknown")]
pub(super) struct Flood {
    /// Legitimate packets offered, as a share of what the router forwards when nothing else comes.
    #[arg(long, value_name = "SHARE", default_value_t = 0.3)]
    load: f64,
    /// Measured runs of each flood, with undisturbed ones between them.
    #[arg(long, value_name = "NUMBER", default_value_t = 5)]
    runs: usize,
    /// Length of a run in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 500)]
    run_ms: u64,
    /// Measure only floods whose name begins so. --list prints the names.
    #[arg(long, value_name = "NAME", default_value = "")]
    only: String,
    /// Print the names of the floods and end.
    #[arg(long)]
    list: bool,
    /// Measure only what packets cost, not what is left of other traffic.
    #[arg(long)]
    cost_only: bool,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

impl From<Flood> for flood::Settings {
    fn from(args: Flood) -> flood::Settings {
        flood::Settings {
            load: args.load,
            runs: args.runs,
            run_ms: args.run_ms,
            only: args.only,
            cost_only: args.cost_only,
        }
    }
}

impl Flood {
    /// Measures, and prints what was found.
    pub(super) fn run(self) -> u8 {
        let json = self.json;
        // A share that cannot be is refused even where it does not count.
        if self.list && (0.01..=0.9).contains(&self.load) {
            flood::names().for_each(|name| outln!("{name}"));
            return exit::SUCCESS;
        }
        show("bench flood", flood::measure(&self.into()), json)
    }
}

/// An algorithm as `ip xfrm` names it.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Algorithm {
    /// AES-128 in Galois counter mode.
    Aes128Gcm,
    /// AES-256 in Galois counter mode.
    Aes256Gcm,
    /// ChaCha20 with Poly1305.
    Chacha20Poly1305,
    /// AES-128 in cipher block chaining mode with HMAC-SHA-256.
    Aes128CbcSha256,
    /// Triple DES with HMAC-SHA-1: obsolete, for comparisons with published measurements.
    #[value(name = "3des-sha1")]
    TripleDesSha1,
}

impl From<Algorithm> for ipsec::Algorithm {
    fn from(algorithm: Algorithm) -> ipsec::Algorithm {
        match algorithm {
            Algorithm::Aes128Gcm => ipsec::Algorithm::Aes128Gcm,
            Algorithm::Aes256Gcm => ipsec::Algorithm::Aes256Gcm,
            Algorithm::Chacha20Poly1305 => ipsec::Algorithm::Chacha20Poly1305,
            Algorithm::Aes128CbcSha256 => ipsec::Algorithm::Aes128CbcSha256,
            Algorithm::TripleDesSha1 => ipsec::Algorithm::TripleDesSha1,
        }
    }
}

/// Measure what IPsec costs a packet: IPsecEncrypt and IPsecDecrypt with policies and associations, and the whole way through a gateway, on in-memory devices.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:
  junctor bench ipsec
  junctor bench ipsec --algorithm aes256-gcm --length 60 --tunnels 1,1000,100000
  junctor bench ipsec --scaling --json")]
pub(super) struct Ipsec {
    /// How packets are protected.
    #[arg(long, value_enum, default_value = "aes128-gcm")]
    algorithm: Algorithm,
    /// Lengths of the packets before they are protected, in bytes.
    #[arg(long, value_name = "BYTES,...", value_delimiter = ',', default_value = "60,1436")]
    length: Vec<usize>,
    /// Numbers of tunnels, each with a policy of its own. Packets take one at random.
    #[arg(long, value_name = "NUMBER,...", value_delimiter = ',', default_value = "1,1000")]
    tunnels: Vec<usize>,
    /// Measure also two workers next to two programs of one worker each.
    #[arg(long)]
    scaling: bool,
    /// Measured runs of each case.
    #[arg(long, value_name = "NUMBER", default_value_t = 5)]
    runs: usize,
    /// Length of a run in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 200)]
    run_ms: u64,
    /// Print the result as JSON.
    #[arg(long)]
    pub(super) json: bool,
}

impl From<Ipsec> for ipsec::Settings {
    fn from(args: Ipsec) -> ipsec::Settings {
        ipsec::Settings {
            algorithm: args.algorithm.into(),
            length: args.length,
            tunnels: args.tunnels,
            scaling: args.scaling,
            runs: args.runs,
            run_ms: args.run_ms,
        }
    }
}

/// Run a router with FRR and a full table in network namespaces; kill its processes, change its routes, and measure how far its table is behind.
///
/// Needs root, FRR and nothing else. The exit status is 1 if a packet or a prefix was lost, or if the table ends with other routes than announced.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:
  sudo junctor bench live --most 50000
  sudo junctor bench live --kills 20 --churn 600 --json > live.json")]
pub(super) struct Live {
    /// IPv4 routes, in any form that 'junctor fib' reads; without it, the shared real table, or a generated one.
    #[arg(long, value_name = "FILE")]
    routes: Option<PathBuf>,
    /// Changes of routes: lines of 'A PREFIX/LEN ID' and 'W PREFIX/LEN'; without it, the shared ones, or generated.
    #[arg(long, value_name = "FILE")]
    updates: Option<PathBuf>,
    /// Routes at most, evenly taken from the table.
    #[arg(long, value_name = "NUMBER")]
    most: Option<usize>,
    /// How often each process is killed.
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    kills: usize,
    /// Which processes are killed. The control plane (routes) is the reader of FPM, too; fpm is its connection alone.
    #[arg(long, value_name = "NAMES", value_delimiter = ',', default_values = live::VICTIMS, value_parser = live::VICTIMS)]
    victims: Vec<String>,
    /// Packets a second that must all arrive.
    #[arg(long, value_name = "NUMBER", default_value_t = 1000)]
    rate: u32,
    /// How long routes change, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    churn: u64,
    /// How many times faster than one peer of the real Internet routes change.
    #[arg(long, value_name = "TIMES", default_value_t = 100.0)]
    times: f64,
    /// Take no routes from the kernel, so that FPM alone fills the table.
    #[arg(long)]
    fpm_only: bool,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

impl From<Live> for live::Settings {
    fn from(args: Live) -> live::Settings {
        live::Settings {
            routes: args.routes,
            updates: args.updates,
            most: args.most,
            kills: args.kills,
            victims: args.victims,
            rate: args.rate,
            churn: args.churn,
            times: args.times,
            fpm_only: args.fpm_only,
            quiet: args.json,
        }
    }
}

impl Live {
    /// Measures, and prints what was found; then what was lost or wrong.
    pub(super) fn run(self) -> u8 {
        let json = self.json;
        match live::measure(&self.into()) {
            Ok((findings, failures)) => {
                let status = show("bench live", Ok(findings), json);
                failures.iter().for_each(|why| errln!("junctor: {why}"));
                if failures.is_empty() { status } else { exit::FAILURE }
            }
            Err(why) => tell(&why),
        }
    }
}

/// Measure how long `junctor run` takes to start a large configuration, and `junctor check` to check a long one: wall
/// time of whole processes, compared with one for an empty configuration.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:
  junctor bench start
  junctor bench start --json --elements 5000 --lines 50000
  junctor bench start --write big.click")]
pub(super) struct Start {
    /// Elements of the configuration that is run.
    #[arg(long, value_name = "NUMBER", default_value_t = 1000)]
    elements: usize,
    /// Lines of the configuration that is checked.
    #[arg(long, value_name = "NUMBER", default_value_t = 10_000)]
    lines: usize,
    /// Measured runs of each, after one to warm up.
    #[arg(long, value_name = "NUMBER", default_value_t = 11)]
    runs: usize,
    /// Only write the configuration that would be run to this file.
    #[arg(long, value_name = "FILE")]
    write: Option<PathBuf>,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

impl From<Start> for start::Settings {
    fn from(args: Start) -> start::Settings {
        start::Settings { elements: args.elements, lines: args.lines, runs: args.runs }
    }
}

impl Start {
    /// Measures, and prints what was found; or writes the configuration.
    pub(super) fn run(self) -> u8 {
        let json = self.json;
        if let Some(file) = &self.write {
            return match std::fs::write(file, start::generate(self.elements)) {
                Ok(()) => exit::SUCCESS,
                Err(why) => outcome::fail(format!("{}: {why}", file.display())),
            };
        }
        show("bench start", start::measure(&self.into()), json)
    }
}
