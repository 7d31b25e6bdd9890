// SPDX-License-Identifier: MIT OR Apache-2.0
//! The options of benchmarks of single parts: handing packets over, locks, tables, channels.

use std::path::PathBuf;

use bench::{bridge, fib, handoff, icc, locks, mac, rules, sets};

use crate::stands_for::stands_for;

/// Measure what a frame costs in a bridge: one worker, two ports, 10,000 stations and 65,536, untagged frames of 60 bytes, source and sink included, and a bare wire next to it.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:
  junctor bench bridge
  junctor bench bridge --json --runs 15
  junctor bench engine --scaling 2 conf/bridge.click
  junctor bench engine --scaling 2 --big-lock conf/bridge.click")]
pub(super) struct Bridge {
    /// Interleaved rounds.
    #[arg(long, value_name = "NUMBER", default_value_t = 9)]
    runs: usize,
    /// Length of a run in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 100)]
    run_ms: u64,
    /// Packets handled at a time.
    #[arg(long, value_name = "PACKETS", default_value_t = engine::DEFAULT_BURST)]
    burst: usize,
    /// Print the result as JSON.
    #[arg(long)]
    pub(super) json: bool,
}

impl From<Bridge> for bridge::Settings {
    fn from(args: Bridge) -> bridge::Settings {
        bridge::Settings { runs: args.runs, run_ms: args.run_ms, burst: args.burst }
    }
}

/// Measure the forwarding tables: lookups, memory, building, updates, and what updates leave of the readers' rate.
///
/// Rates are lookups over the processor time of the thread that makes them. `rand` draws uniform addresses (IPv6: in
/// 2000::/3), `pfx` a random host in a random route, `zipf` 65,536 flows in trains by Zipf's law.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:
  junctor bench fib
  junctor bench fib --v4 --routes table.txt.xz --updates day.txt.xz
  junctor bench fib --json --runs 9 > fib.json")]
pub(super) struct Fib {
    /// IPv4 only.
    #[arg(long, conflicts_with = "v6")]
    v4: bool,
    /// IPv6 only.
    #[arg(long)]
    v6: bool,
    /// Routes, in any form that `junctor fib` reads; without it, the shared real tables, or a generated one.
    #[arg(long, value_name = "FILE")]
    routes: Option<PathBuf>,
    /// Updates to apply: lines of `A PREFIX/LEN ID` and `W PREFIX/LEN`; without it, the shared ones, or generated.
    #[arg(long, value_name = "FILE")]
    updates: Option<PathBuf>,
    /// Updates a second that disturb the readers.
    #[arg(long, value_name = "NUMBER", default_value_t = 200_000)]
    pace: u64,
    /// Interleaved rounds.
    #[arg(long, value_name = "NUMBER", default_value_t = 5)]
    runs: usize,
    /// Length of each run of readers with a writer, in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 400)]
    run_ms: u64,
    /// Print the result as JSON.
    #[arg(long)]
    pub(super) json: bool,
}

impl From<Fib> for fib::Settings {
    fn from(args: Fib) -> fib::Settings {
        fib::Settings {
            v4: args.v4,
            v6: args.v6,
            routes: args.routes,
            updates: args.updates,
            pace: args.pace,
            runs: args.runs,
            run_ms: args.run_ms,
            quiet: args.json,
        }
    }
}

/// Measure what moving a packet between two cores through a Queue costs: the busy time of both sides over packets moved.
#[derive(Clone, Debug, clap::Args)]
#[command(
    after_help = "What is counted, for each burst and way of synchronisation (names end in .WAY.BURST):
  handoff.ns_per_packet           pushing a batch into the Queue on one core, and on the other fetching it and reading
                                  each packet's descriptor and first 16 bytes of header
  handoff.one_core_ns_per_packet  the same with both on one core
  handoff.memory_ns_per_packet    beside it: taking frames and writing 64 bytes into each on the first core, and freeing
                                  them on the other; the frames return through the shared pool
  handoff.one_core_memory_ns_per_packet
  handoff.take_ns_per_packet      of the first, what the core pays that takes the packets
  handoff.floor_ns_per_packet     the same as the first without engine, queue and packets: two bare threads pass lists of
                                  frames, and the second reads the two lines that the first wrote for each of them
  handoff.lock_contended_share    with a lock: of the times it was taken, the share that had to wait
  handoff.lock_wait_ns_per_packet how long, over packets moved
handoff.ns_per_packet alone is that of the lock-free queue at burst 32. Times spent with a queue too full or empty to
move anything are left out; each side's two readings of the clock (about 16 ns) are in.

Examples:
  junctor bench handoff
  junctor bench handoff --json --sync lockfree,spin,adaptive --burst 32"
)]
pub(super) struct Handoff {
    /// Packets handled at a time.
    #[arg(long, value_name = "PACKETS", value_delimiter = ',', default_values_t = [1, 8, 32, 64])]
    burst: Vec<usize>,
    /// Ways of synchronisation, as Queue's argument SYNC.
    #[arg(long, value_name = "WAY", value_delimiter = ',', default_values_t = ["lockfree".to_owned()])]
    sync: Vec<String>,
    /// The two cores.
    #[arg(long, value_name = "CORES", default_value = "0,1")]
    cores: String,
    /// Packets that the queue holds at most.
    #[arg(long, value_name = "PACKETS", default_value_t = 1000)]
    capacity: usize,
    /// Measured runs of each, after one to warm up.
    #[arg(long, value_name = "NUMBER", default_value_t = 7)]
    runs: usize,
    /// Length of a run in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 50)]
    run_ms: u64,
    /// Print the result as JSON.
    #[arg(long)]
    pub(super) json: bool,
}

impl TryFrom<Handoff> for handoff::Settings {
    type Error = String;

    fn try_from(args: Handoff) -> Result<handoff::Settings, String> {
        Ok(handoff::Settings {
            burst: args.burst,
            sync: args.sync,
            cores: two_cores(&args.cores, &|| {
                format!("--cores expects two cores such as 0,1, not '{}'", args.cores)
            })?,
            capacity: args.capacity,
            runs: args.runs,
            run_ms: args.run_ms,
        })
    }
}

/// Measure communication between planes: messages, scalars and counters in shared memory.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "What is measured (names end as below):
  icc.floor_ns.p50, .p99_9     a word from core to core, by two bare threads: what the hardware takes
  icc.message_ns.p50, .p99_9   a message of 56 bytes, both sides polling; .p50_over_floor is the ratio in the same round
  icc.file_ns.p50, .p99_9      the same through a file, as between two operating systems
  icc.woken_ns.p50             a message to a receiver that sleeps, until it has it (eventfd); a thread that runs only when nothing else wants to
                               keeps both cores awake
  icc.woken_idle_ns.p50        the same on cores that fall asleep too, which then wake up first
  icc.woken_floor_ns.p50, icc.woken_idle_floor_ns.p50
                               both with a bare eventfd and a thread that sleeps in read(2)
  icc.messages_per_s.1, .32    messages sent one by one, and 32 at a time
  icc.scalars_per_s.1, .32     the same with scalars of 64 bits
  icc.counters_slowdown        share of its processor time that a counting core loses while another reads all counters --reads times a second
  icc.counters_publish_ns      one publication of all counters; icc.counters_publish_share is what publications take of the core
  icc.counters_read_ns         one reading of all counters
  icc.block_publish_ns.4096, .65536
                               one publication of a block of so many bytes, which is how a router's statistics go; .block_publish_read_ns is that
                               while another core reads every block, icc.block_read_ns one reading there, icc.block_copy_ns a bare copy
  icc.packet_ns.64, .1500      both sides' time for a packet of so many bytes through a packet channel, in batches of 64: frames are taken, written to,
                               copied, read and freed; with --share-frames long packets are lent
  icc.handoff_ns               the same for a Queue between two workers of one router, which moves no bytes, in the same round;
                               icc.packet_over_handoff.64, .1500 are the ratios
Other programs on the two cores show in the high percentiles of all rows; compare them with the floor's.

Examples:
  junctor bench icc
  junctor bench icc --counters 2048 --reads 50000 --json")]
pub(super) struct Icc {
    /// The two cores; by default the first two that there are.
    #[arg(long, value_name = "CORES")]
    cores: Option<String>,
    /// Counters in the block.
    #[arg(long, value_name = "NUMBER", default_value_t = 512, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    counters: u32,
    /// Readings of all counters a second.
    #[arg(long, value_name = "RATE", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    reads: u32,
    /// Publications of all counters a second.
    #[arg(long, value_name = "RATE", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    publications: u32,
    /// Rounds, in each of which everything is measured once.
    #[arg(long, value_name = "NUMBER", default_value_t = 7)]
    runs: usize,
    /// Exchanges of a latency run, and a thousandth of the messages of a rate.
    #[arg(long, value_name = "NUMBER", default_value_t = 50_000, value_parser = clap::value_parser!(u32).range(100..=10_000_000))]
    exchanges: u32,
    /// Keep packet memory where other processes can read it, so that long packets are lent.
    #[arg(long)]
    share_frames: bool,
    /// Print the result as JSON.
    #[arg(long)]
    pub(super) json: bool,
}

impl TryFrom<Icc> for icc::Settings {
    type Error = String;

    fn try_from(args: Icc) -> Result<icc::Settings, String> {
        Ok(icc::Settings {
            cores: args
                .cores
                .as_deref()
                .map(|cores| two_cores(cores, &|| "--cores expects two cores such as 0,1".to_owned()))
                .transpose()?,
            counters: args.counters,
            reads: args.reads,
            publications: args.publications,
            runs: args.runs,
            exchanges: args.exchanges,
            share_frames: args.share_frames,
        })
    }
}

/// Measure what reading a shared table costs by ways of excluding each other, on one core and on two, while it is changed at given
/// rates.
#[derive(Clone, Debug, clap::Args)]
#[command(
    after_help = "A packet is a section that reads one entry of a table of 1 KiB, and --work steps beside it. Ways:
  big       one lock around the whole packet (sync's adaptive lock, as 'junctor run --big-lock' has it)
  spin      a spin lock around the section (sync's)
  adaptive  a lock around the section whose waiters spin shortly, then sleep (sync's)
  rwlock    a readers-writer lock around the section (the Rust standard library's)
  rcu       no lock: each change is a new version, the old one is freed when every core has begun another batch (sync's)

What is counted, for each way and each number of changes a second (names end in .WAY.WRITES, of the first in .WAY):
  locks.bare_ns       without changes, a section on one core, one after the other without any work between them
  locks.alone_ns      a packet on one core; a processor does much of an uncontended lock's work during the packet's own
  locks.contended_ns  a packet on each of two cores that do the same at once
  locks.write_ns      a change, made by one of two cores between two batches of 32 packets
  locks.writes_per_s  changes that were really made by two cores
  locks.bare_ns.none, locks.alone_ns.none, locks.contended_ns.none
                      the same packets with a table for each core and no exclusion; what is above that is the way's cost
Other programs' time on the same cores is left out, what they hold up is not. sync's locks count how contended they are,
about 1 ns of each section.

Examples:
  junctor bench locks
  junctor bench locks --way spin,rcu --writes 0,100,10000,1000000 --json"
)]
pub(super) struct Locks {
    /// Ways to measure.
    #[arg(long, value_name = "WAY", value_delimiter = ',', default_values_t = locks::WAYS.map(str::to_owned))]
    way: Vec<String>,
    /// Changes a second, of all cores together.
    #[arg(long, value_name = "RATE", value_delimiter = ',', default_values_t = [0, 1000, 100_000])]
    writes: Vec<u64>,
    /// Steps of work outside the section, of about five cycles each.
    #[arg(long, value_name = "STEPS", default_value_t = 8)]
    work: u32,
    /// The two cores; by default the first two that there are.
    #[arg(long, value_name = "CORES")]
    cores: Option<String>,
    /// Rounds, in each of which everything is measured once.
    #[arg(long, value_name = "NUMBER", default_value_t = 7)]
    runs: usize,
    /// Length of a run in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 20)]
    run_ms: u64,
    /// Print the result as JSON.
    #[arg(long)]
    pub(super) json: bool,
}

impl TryFrom<Locks> for locks::Settings {
    type Error = String;

    fn try_from(args: Locks) -> Result<locks::Settings, String> {
        Ok(locks::Settings {
            way: args.way,
            writes: args.writes,
            work: args.work,
            cores: args
                .cores
                .as_deref()
                .map(|cores| two_cores(cores, &|| "--cores expects two cores such as 0,1".to_owned()))
                .transpose()?,
            runs: args.runs,
            run_ms: args.run_ms,
        })
    }
}

/// Measure the table of Ethernet addresses: lookups, and reads while a million entries are flushed.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:
  junctor bench mac
  junctor bench mac --json --runs 9")]
pub(super) struct Mac {
    /// Interleaved rounds, and flushes.
    #[arg(long, value_name = "NUMBER", default_value_t = 5)]
    runs: usize,
    /// How long reads are timed before each flush and after it, in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 100)]
    run_ms: u64,
    /// Stations of the table that is flushed.
    #[arg(long, value_name = "NUMBER", default_value_t = 1 << 20)]
    flushed: usize,
    /// Print the result as JSON.
    #[arg(long)]
    pub(super) json: bool,
}

impl From<Mac> for mac::Settings {
    fn from(args: Mac) -> mac::Settings {
        mac::Settings { runs: args.runs, run_ms: args.run_ms, flushed: args.flushed }
    }
}

/// Measure what it costs to find the first rule that a packet matches, in lists of several shapes and lengths.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:
  junctor bench rules
  junctor bench rules --rules 1000 --shape fw --runs 15 --json")]
pub(super) struct Rules {
    /// Rules of each list.
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', default_values_t = [100, 1_000, 10_000, 100_000])]
    rules: Vec<usize>,
    /// What the lists are like.
    #[arg(long, value_name = "SHAPES", value_delimiter = ',')]
    shape: Vec<Shape>,
    /// Rounds.
    #[arg(long, value_name = "NUMBER", default_value_t = 5)]
    runs: usize,
    /// Where lists and headers begin.
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    /// Print the result as JSON.
    #[arg(long)]
    pub(super) json: bool,
}

/// What a list of rules is like.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Shape {
    /// An access control list: long prefixes at both ends, exact destination ports.
    Acl,
    /// A firewall: many rules for all sources, ranges of ports at both ends.
    Fw,
    /// A chain of Linux rules: something of both.
    Ipc,
    /// Prefixes of 8 to 32 bits and ports at random.
    Random,
}

stands_for!(Shape => rules::Shape: Acl, Fw, Ipc, Random);

impl From<Rules> for rules::Settings {
    fn from(args: Rules) -> rules::Settings {
        let shapes = args.shape.into_iter().map(rules::Shape::from).collect();
        rules::Settings { rules: args.rules, shapes, runs: args.runs, seed: args.seed }
    }
}

/// Measure what named sets of a firewall cost: to make, to ask, and to change one entry at a time.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:
  junctor bench sets
  junctor bench sets --entries 1000000 --runs 15 --json")]
pub(super) struct Sets {
    /// Entries of each set.
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', default_values_t = [1_000, 100_000, 1_000_000])]
    entries: Vec<usize>,
    /// Rounds.
    #[arg(long, value_name = "NUMBER", default_value_t = 5)]
    runs: usize,
    /// Where entries and numbers begin.
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    /// Print the result as JSON.
    #[arg(long)]
    pub(super) json: bool,
}

impl From<Sets> for sets::Settings {
    fn from(args: Sets) -> sets::Settings {
        sets::Settings { entries: args.entries, runs: args.runs, seed: args.seed }
    }
}

/// Two cores.
fn two_cores(text: &str, why: &dyn Fn() -> String) -> Result<[usize; 2], String> {
    let (_, cores) = conf::cores::parse(text)?;
    cores.try_into().map_err(|_| why())
}
