// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor run`: runs a configuration until it ends by itself, time is up, or somebody interrupts it.

mod answers;
mod confined;
mod control;
mod settings;

use std::sync::Arc;
use std::time::Duration;

use conf::{Form, Loaded, place};
use engine::{Options, Router};
use lang::Graph;
use observe::recording::Live;
use services::devices::Hold;
use services::kept::Kept;
use services::running::{self, Anew, Signalled};
use services::{devices, domain, handover, wellbeing};

use crate::config::Source;
use crate::keeper::{self, Keeper, Offered};
use crate::state::State;
use crate::{exit, outcome};
pub(crate) use confined::{Confine, confined_by_default};
use settings::Settings;

/// Run a configuration.
#[derive(Clone, Debug, clap::Args)]
#[command(
    disable_help_flag = true,
    after_help = "Examples:
  junctor run router.click
  junctor run -j 2 --set PEER=10.0.0.2 router.click
  junctor run -j 4 --adaptive router.click
  junctor run --simtime -h c.count -e 'InfiniteSource(LIMIT 5, STOP true) -> c :: Counter -> Discard'"
)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) source: Source,
    /// Print help.
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,
    #[command(flatten)]
    pub(crate) workers: Workers,
    #[command(flatten)]
    pub(crate) answers: Answers,
    #[command(flatten)]
    pub(crate) control: Control,
    #[command(flatten)]
    pub(crate) planes: Planes,
    #[command(flatten)]
    pub(crate) clock: Time,
    #[command(flatten)]
    pub(crate) memory: Memory,
    #[command(flatten)]
    pub(crate) confinement: confined::Options,
    /// Keep what a restart goes on from in this directory: the configuration that runs. If one is there already, begin with it
    /// instead of CONF.
    #[arg(long, value_name = "DIR", help_heading = "Planes")]
    pub(crate) state: Option<std::path::PathBuf>,
}

/// Which threads do the work, and how.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Workers")]
pub(crate) struct Workers {
    /// Worker threads, one per core: a number, or a list of cores such as 0,2-3 [default: all cores].
    #[arg(short = 'j', long = "threads", value_name = "CORES")]
    pub(crate) threads: Option<String>,
    /// Workers that there may be in all: 'junctor ctl threads N' adds those beyond --threads and retires them again. They sleep
    /// until then [default: as many as --threads].
    #[arg(long, value_name = "N")]
    pub(crate) max_threads: Option<usize>,
    /// Run an element's task on this worker: its core if --threads lists cores, else its number. Several, as in=0,1, for
    /// an element with a task for each queue; may be repeated, and wins over StaticThreadSched.
    #[arg(long, value_name = "ELEMENT=CORE")]
    pub(crate) place: Vec<String>,
    /// Take such placements from a file, one a line.
    #[arg(long, value_name = "FILE")]
    pub(crate) placement: Option<std::path::PathBuf>,
    /// Move tasks to other workers while the router runs, when one has too much to do: looks every PERIOD (default 1s).
    /// 'junctor ctl balancer.log' says what was moved and whether it helped. Tasks placed by --place, --placement or
    /// StaticThreadSched stay. Off unless asked for, here or by BalancedThreadSched.
    #[arg(long, value_name = "PERIOD", num_args = 0..=1, require_equals = true, default_missing_value = "1s")]
    pub(crate) adaptive: Option<String>,
    /// Packets that sources send and drains ask for at a time; 1 processes packets in exactly Click's order.
    ///
    /// The default is 64, or 1 when called as `click`.
    #[arg(long, value_name = "PACKETS")]
    pub(crate) burst: Option<usize>,
    /// Let every element run by itself: no chain runs as one pass (see `junctor check --explain`).
    #[arg(long)]
    pub(crate) no_fuse: bool,
    /// Let only one worker at a time process packets: one big lock around all of it, to see what that costs.
    #[arg(long)]
    pub(crate) big_lock: bool,
    /// Name a worker that stands still for this time, with its element and packets, and wait for it no longer (0: never).
    #[arg(long, value_name = "TIME", default_value = "5s")]
    pub(crate) watchdog: String,
    /// Move tasks between workers at random while the router runs: for tests.
    #[arg(long, value_name = "NUMBER", hide = true)]
    pub(crate) chaos: Option<u64>,
}

/// What is printed, during the run and after it.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Answers")]
pub(crate) struct Answers {
    /// Print this read handler's value after the run; may be repeated, and match elements by pattern (`c*.count`).
    #[arg(short = 'h', long = "handler", value_name = "ELEMENT.H")]
    pub(crate) handlers: Vec<String>,
    /// Use this read handler's value as exit status.
    #[arg(short = 'x', long = "exit-handler", value_name = "ELEMENT.H")]
    pub(crate) exit_handler: Option<String>,
    /// Do not run the router; initialise it, answer --handler and --output, and end.
    #[arg(short, long)]
    pub(crate) quit: bool,
    /// Write the flat configuration to this file (`-`: standard output).
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<String>,
    /// After the run, print what each element sent and dropped, and why.
    #[arg(long)]
    pub(crate) report: bool,
    /// Print how long the run took.
    #[arg(short = 't', long = "print-time")]
    pub(crate) print_time: bool,
    /// Do not print warnings.
    #[arg(short = 'w', long)]
    pub(crate) no_warnings: bool,
    /// After the run, add to this file what of its packets is not accounted for: for tests.
    #[arg(long, value_name = "FILE", hide = true)]
    pub(crate) account: Option<String>,
}

/// Who may read and change the router.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Control")]
pub(crate) struct Control {
    /// Listen for 'junctor ctl' on this Unix socket, or on 'none' [default: one for this process in /run/junctor for
    /// root, else in $XDG_RUNTIME_DIR/junctor; none on simulated time].
    #[arg(long, value_name = "PATH")]
    pub(crate) control: Option<String>,
    /// Listen for control connections on this TCP port of the loopback address (PORT+: on the first free one from there
    /// on); may be repeated. Needs --control-token or --control-open.
    #[arg(short, long, value_name = "PORT")]
    pub(crate) port: Vec<String>,
    /// Listen for control connections on this Unix socket, which only its owner may use; may be repeated.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) unix_socket: Vec<String>,
    /// Take control commands from the connected socket of this descriptor; may be repeated.
    #[arg(long, value_name = "DESCRIPTOR", hide = true)]
    pub(crate) socket: Vec<i32>,
    /// Clients of TCP control ports begin with AUTH and the token in this file, which only its owner may be able to read. It
    /// is made if it is not there.
    #[arg(long, value_name = "FILE", conflicts_with = "control_open")]
    pub(crate) control_token: Option<std::path::PathBuf>,
    /// TCP control ports need no token: every user of this machine then has the rights of the router.
    #[arg(long)]
    pub(crate) control_open: bool,
    /// Let this group use the control sockets at paths, too: --control, --unix-socket and the default one.
    #[arg(long, value_name = "GROUP")]
    pub(crate) control_group: Option<String>,
    /// Provide a writable 'hotconfig' handler, which takes another configuration and puts it in this one's place.
    #[arg(short = 'R', long)]
    pub(crate) allow_reconfigure: bool,
    /// How often counters are published for 'junctor top' and others, in a file next to the control socket, or 'none'. Costs workers
    /// nothing that can be measured; a very large configuration is published less often, one of more than 100,000
    /// elements not at all.
    #[arg(long, value_name = "PERIOD", default_value = "250ms")]
    pub(crate) stats: String,
}

/// What the router shares with others.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Planes")]
pub(crate) struct Planes {
    /// Be in the domain of inter-core communication at this socket (@NAME: one without a file), whose channels ToPlane and FromPlane use. If nobody
    /// serves it, serve the channels that CONF names [default: that of the deployment, if 'junctor up' has started this router].
    #[arg(long, value_name = "SOCKET")]
    pub(crate) icc: Option<std::path::PathBuf>,
    /// Share the interfaces with the other routers of this group, which run the same configuration: each receives the flows that the
    /// kernel picks for it.
    #[arg(long, value_name = "GROUP")]
    pub(crate) share: Option<String>,
    /// Keep packet memory where other planes can read it: ToPlane lends long packets instead of copying them. A plane that receives from this router can
    /// then read all of its packets.
    #[arg(long)]
    pub(crate) share_frames: bool,
}

/// When the run ends, and what it takes for time.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Time and chance")]
pub(crate) struct Time {
    /// Stop after this time (seconds, or with unit: 500ms, 2min).
    #[arg(long, value_name = "TIME")]
    pub(crate) time: Option<String>,
    /// Run on simulated time, from this many seconds after the epoch: exactly, and as fast as it can.
    #[arg(long, value_name = "EPOCH", num_args = 0..=1, require_equals = true, default_missing_value = "1000000000")]
    pub(crate) simtime: Option<f64>,
    /// Seed of all that is random, ports of address translators among it, so that a run can be repeated. By default the system's
    /// random numbers, and 1 with --simtime.
    #[arg(long, value_name = "NUMBER")]
    pub(crate) seed: Option<u64>,
}

/// Where packets are.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Memory")]
pub(crate) struct Memory {
    /// Frames of packet memory.
    #[arg(long, value_name = "FRAMES", default_value_t = packet::Config::default().frames)]
    pub(crate) frames: usize,
    /// Bytes of a frame: 2048, 4096, 8192 or 16384. Jumbo frames up to 9216 bytes work with any.
    #[arg(long, value_name = "BYTES", default_value_t = packet::Config::default().frame_size)]
    pub(crate) frame_size: usize,
    /// Lock all memory: nothing of it is paged out.
    #[arg(long)]
    pub(crate) lock_memory: bool,
}

/// Runs the command.
pub(crate) fn main(args: Args) -> u8 {
    execute(&args, Form::Full)
}

/// Runs a configuration with diagnostics in this form; returns the exit status.
pub(crate) fn execute(args: &Args, form: Form) -> u8 {
    execute_beside(args, form, |_| Ok(|| exit::SUCCESS))
}

/// The same with a companion. `begin` is called when the router is built, and the closure that it returns when the run has ended.
/// The closure's status is that of the whole if the run itself succeeded.
pub(crate) fn execute_beside<E: FnOnce() -> u8>(
    args: &Args,
    form: Form,
    begin: impl FnOnce(&mut Router) -> Result<E, String>,
) -> u8 {
    executed(args, form, begin).unwrap_or_else(|status| status)
}

/// Says why the options or the configuration cannot be run; returns the exit status, for which Click knows one only.
fn unusable(form: Form, why: impl std::fmt::Display) -> u8 {
    failln!("junctor: {why}");
    status_of_unusable(form)
}

fn status_of_unusable(form: Form) -> u8 {
    if form == Form::Click { 1 } else { exit::USAGE }
}

/// A router that is ready to run.
struct Ready {
    router: Router,
    keeper: Arc<Keeper>,
    settings: Times,
    state: Option<(State, Graph)>,
    kept: Option<Arc<Kept>>,
    hold: Option<Hold>,
    is_empty: bool,
}

/// What is left to know of the settings of a router that is built.
struct Times {
    limit: Option<Duration>,
    stats: Option<Duration>,
}

/// The whole; what went wrong is said, and its status is the error.
fn executed<E: FnOnce() -> u8>(
    args: &Args,
    form: Form,
    begin: impl FnOnce(&mut Router) -> Result<E, String>,
) -> Result<u8, u8> {
    let mut ready = build(args, form)?;
    let begun_as = ready.router.shared().lineage().clone();
    if args.control.allow_reconfigure {
        ready.router.control().allow_reconfigure(ready.keeper.by_handler());
    }
    let mut beside = exit::SUCCESS;
    if !args.answers.quit && ready.is_empty {
        warn_of_nothing(args);
    } else if !args.answers.quit {
        beside = run(args, form, &mut ready, begin)?;
    }
    let router = &mut ready.router;
    if let Some(file) = &args.answers.account {
        let done = services::answers::account(router, &begun_as, file);
        done.map_err(|why| outcome::fail(format!("{file}: {why}")))?;
    }
    Ok(match answers::finish(args, form, router) {
        exit::SUCCESS => beside,
        status => status,
    })
}

/// The configuration: what ran last, if a restart goes on from that, or what the options name.
fn load(args: &Args, form: Form, state: Option<&State>) -> Result<Loaded, u8> {
    let last = state.and_then(|state| state.last(args.source.options().ok()?));
    let loaded = last.map_or_else(|| args.source.load(), Ok).map_err(|why| unusable(form, why))?;
    control::say_who(args, form).map_err(|why| unusable(form, why))?;
    loaded.report(&loaded.diagnostics, form, !args.answers.no_warnings);
    Ok(loaded)
}

/// Builds the router.
fn build(args: &Args, form: Form) -> Result<Ready, u8> {
    let state = args.state.as_deref().map(State::new);
    let mut loaded = load(args, form, state.as_ref())?;
    let mut graph = loaded.graph.take().ok_or_else(|| status_of_unusable(form))?;
    if let Some(wrong) = args.planes.share.as_ref().and_then(|_| devices::needs_all(&graph)) {
        return Err(outcome::usage(wrong));
    }
    if args.memory.lock_memory {
        running::lock_memory().map_err(outcome::fail)?;
    }
    let own = graph.elements.len();
    let state = state.map(|state| (state, graph.clone()));
    control::add_sockets(&mut graph, args);
    let kept = Kept::from_environment();
    let planes = domain::of(args.planes.icc.as_deref(), &graph);
    let planes = planes.map_err(|why| outcome::fail(format!("--icc: {why}")))?;
    let settings = Settings::try_from(args).map_err(|why| unusable(form, why))?;
    let places = place::read(&args.workers.place, args.workers.placement.as_deref(), settings.places());
    place::add(&mut graph, &places.map_err(|why| unusable(form, why))?);
    packet::Memory::reserve(settings.memory).map_err(|why| unusable(form, why))?;
    confined::prepare(args, &graph).map_err(outcome::fail)?;
    let keeps = kept.clone().map(|kept| kept as _);
    let (provider, hold) = devices::of_router(keeps, planes, args.planes.share.as_deref());
    let options = Options {
        provider,
        workers: settings.workers,
        reserve: settings.reserve,
        cores: settings.cores,
        burst: settings.burst,
        time: settings.time,
        seed: settings.seed,
        print: None,
        placer: Some(reconfigure::placer()),
    };
    // A control socket alone is something: a configuration may come by it.
    if graph.elements.is_empty() && form != Form::Click {
        return Err(unusable(form, format!("{}; 'junctor init' writes one", conf::NOTHING)));
    }
    let graph = Arc::new(graph);
    let built = Router::build_shared(&graph, &conf::registry(args.workers.no_fuse), options);
    let mut router = built.map_err(|errors| {
        loaded.report(&errors, form, true);
        status_of_unusable(form)
    })?;
    loaded.report(&router.shared().warnings, form, !args.answers.no_warnings);
    reconfigure::watch_workers(&mut router, settings.patience);
    prepare(args, form, &mut router)?;
    let keeper = Keeper::new(args, router.control(), &graph, own);
    let times = Times { limit: settings.limit, stats: settings.stats };
    // Another configuration may come; what this one says, keys among it, does not outlive it here.
    Ok(Ready {
        router,
        keeper,
        settings: times,
        state,
        kept,
        hold: Some(hold),
        is_empty: graph.elements.is_empty(),
    })
}

/// Does what the options ask for before the run.
fn prepare(args: &Args, form: Form, router: &mut Router) -> Result<(), u8> {
    if let Some(period) = &args.workers.adaptive {
        balance(router, period).map_err(|why| unusable(form, format!("--adaptive: {why}")))?;
    }
    if let Some(seed) = args.workers.chaos {
        reconfigure::move_at_random(router, seed);
    }
    if args.workers.big_lock {
        router.lock_all_processing();
    }
    if let Some(file) = &args.answers.output {
        let written = answers::write_flat(file, &router.shared().flat());
        written.map_err(|why| outcome::fail(format!("{file}: {why}")))?;
    }
    Ok(())
}

/// Lets tasks move to where they are best.
fn balance(router: &mut Router, period: &str) -> Result<(), engine::HandlerError> {
    router.write("balancer.period", period)?;
    router.write("balancer.active", "true").map(drop)
}

/// Runs the router and its companions; returns the status of the companions.
fn run<E: FnOnce() -> u8>(
    args: &Args,
    form: Form,
    ready: &mut Ready,
    begin: impl FnOnce(&mut Router) -> Result<E, String>,
) -> Result<u8, u8> {
    let user = confined::user(args).map_err(outcome::fail)?;
    let bound = control::bind(args, form, user.as_ref()).map_err(outcome::fail)?;
    // What follows starts threads, which have no more rights than this one.
    let socket = bound.as_ref().map(|bound| bound.path());
    let directory = confined::directory(args, socket);
    confined::enter(args, ready, user, socket).map_err(outcome::fail)?;
    let Ready { router, keeper, settings, state, kept, hold, .. } = ready;
    let recording = Arc::new(Live::new(router.control(), crate::profile::command_line(), directory));
    let offered = Offered::new(router.control(), keeper.clone(), recording.clone());
    let socket = control::serve(args, form, router, &offered, bound).map_err(outcome::fail)?;
    let _published = settings.stats.and_then(|period| {
        let unseen = |why: String| warn(args, &format!("'junctor top' cannot see this router: {why}"));
        let socket = socket.as_ref().map(|socket| socket.path());
        publish::begin(router.control(), socket, period, unseen)
    });
    let end = begin(router).map_err(outcome::fail)?;
    if let Some((state, graph)) = state.take() {
        state.keep(&graph);
        state.keep_neighbours(router.control());
    }
    let leaver = kept.as_ref().map(|kept| {
        handover::take(router, kept);
        kept.running(true);
        handover::Leaver::start(kept.clone())
    });
    wellbeing::notify(router.control(), kept.clone());
    let started = std::time::Instant::now();
    let keeper = keeper.clone();
    let anew = args.source.path().map(|_| Arc::new(move || keeper.by_file()) as Anew);
    let signalled = Signalled { anew, hold: hold.take().filter(|_| leaver.is_some()) };
    running::run(router, settings.limit, signalled, keeper::remember_signals);
    leaver.iter().for_each(|leaver| leaver.leave(router));
    if args.answers.print_time {
        answers::print_time(form, started.elapsed());
    }
    // Before the socket goes, so that who waits for it finds all of it.
    if let Err(why) = recording.end() {
        warn(args, &format!("the recording under way: {why}"));
    }
    Ok(end())
}

fn warn(args: &Args, message: &str) {
    if !args.answers.no_warnings {
        errln!("junctor: warning: {message}");
    }
}

/// Says that there is nothing to run, in Click's words: otherwise that is an error.
fn warn_of_nothing(args: &Args) {
    if !args.answers.no_warnings {
        let name = match &args.source.expression {
            Some(_) => "config",
            None => args.source.path().unwrap_or("<stdin>"),
        };
        errln!("warning: {name}: configuration has no elements, exiting");
    }
}
