// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor run`: runs a configuration until it ends by itself, time is up, or somebody interrupts it.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

use engine::clock::TimeSource;
use engine::{Control, HandlerError, Options, Router};

use crate::config::Source;
use crate::keeper::{self, Keeper, Offered};
use crate::kept::Kept;
use crate::state::State;
use crate::{calls, control, devices, domain, exit, feeds, liveness, outcome, wellbeing};
use conf::{Form, cores, place};
use observe::recording::Live;

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
    /// Listen for 'junctor ctl' on this Unix socket, or on 'none' [default: one for this process in /run/junctor for
    /// root, else in $XDG_RUNTIME_DIR/junctor; none on simulated time].
    #[arg(long, value_name = "PATH")]
    pub(crate) control: Option<String>,
    /// How often counters are published for 'junctor top' and others, in a file next to the control socket, or 'none'. Costs workers
    /// nothing that can be measured; a very large configuration is published less often, one of more than 100,000
    /// elements not at all.
    #[arg(long, value_name = "PERIOD", default_value = "250ms")]
    pub(crate) stats: String,
    /// Keep what a restart goes on from in this directory: the configuration that runs. If one is there already, begin with it
    /// instead of CONF.
    #[arg(long, value_name = "DIR")]
    pub(crate) state: Option<std::path::PathBuf>,
    /// Be in the domain of inter-core communication at this socket (@NAME: one without a file), whose channels ToPlane and FromPlane use. If nobody
    /// serves it, serve the channels that CONF names [default: that of the deployment, if 'junctor up' has started this router].
    #[arg(long, value_name = "SOCKET")]
    pub(crate) icc: Option<std::path::PathBuf>,
    /// Share the interfaces with the other routers of this group, which run the same configuration: each receives the flows that the
    /// kernel picks for it.
    #[arg(long, value_name = "GROUP")]
    pub(crate) share: Option<String>,
    /// Lock all memory: nothing of it is paged out.
    #[arg(long)]
    pub(crate) lock_memory: bool,
    /// Provide a writable 'hotconfig' handler, which takes another configuration and puts it in this one's place.
    #[arg(short = 'R', long)]
    pub(crate) allow_reconfigure: bool,
    /// Print how long the run took.
    #[arg(short = 't', long = "print-time")]
    pub(crate) print_time: bool,
    /// Do not print warnings.
    #[arg(short = 'w', long)]
    pub(crate) no_warnings: bool,
    /// Run on simulated time, from this many seconds after the epoch: exactly, and as fast as it can.
    #[arg(long, value_name = "EPOCH", num_args = 0..=1, require_equals = true, default_missing_value = "1000000000")]
    pub(crate) simtime: Option<f64>,
    /// Let every element run by itself: no chain runs as one pass (see `junctor check --explain`).
    #[arg(long)]
    pub(crate) no_fuse: bool,
    /// Let only one worker at a time process packets: one big lock around all of it, to see what that costs.
    #[arg(long)]
    pub(crate) big_lock: bool,
    /// Name a worker that stands still for this time, with its element and packets, and wait for it no longer (0: never).
    #[arg(long, value_name = "TIME", default_value = "5s")]
    pub(crate) watchdog: String,
    /// Stop after this time (seconds, or with unit: 500ms, 2min).
    #[arg(long, value_name = "TIME")]
    pub(crate) time: Option<String>,
    /// Packets that sources send and drains ask for at a time; 1 processes packets in exactly Click's order.
    ///
    /// The default is 64, or 1 when called as `click`.
    #[arg(long, value_name = "PACKETS")]
    pub(crate) burst: Option<usize>,
    /// Frames of packet memory.
    #[arg(long, value_name = "FRAMES", default_value_t = packet::Config::default().frames)]
    pub(crate) frames: usize,
    /// Bytes of a frame: 2048, 4096, 8192 or 16384. Jumbo frames up to 9216 bytes work with any.
    #[arg(long, value_name = "BYTES", default_value_t = packet::Config::default().frame_size)]
    pub(crate) frame_size: usize,
    /// Keep packet memory where other planes can read it: ToPlane lends long packets instead of copying them. A plane that receives from this router can
    /// then read all of its packets.
    #[arg(long)]
    pub(crate) share_frames: bool,
    /// Seed of all that is random, ports of address translators among it, so that a run can be repeated. By default the system's
    /// random numbers, and 1 with --simtime.
    #[arg(long, value_name = "NUMBER")]
    pub(crate) seed: Option<u64>,
    /// Move tasks between workers at random while the router runs: for tests.
    #[arg(long, value_name = "NUMBER", hide = true)]
    pub(crate) restless: Option<u64>,
    /// After the run, add to this file what of its packets is not accounted for: for tests.
    #[arg(long, value_name = "FILE", hide = true)]
    pub(crate) account: Option<String>,
    /// After the run, print what each element sent and dropped, and why.
    #[arg(long)]
    pub(crate) report: bool,
    /// Print help.
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,
}

/// Runs the command.
pub(crate) fn main(args: Args) -> u8 {
    execute(&args, Form::Full)
}

/// Runs a configuration with diagnostics in this form; returns the exit status.
pub(crate) fn execute(args: &Args, form: Form) -> u8 {
    execute_beside(args, form, |_| Ok(|| exit::SUCCESS))
}

/// The same with something beside: `begin` is called when the router is built, and what it returns when the run has ended. Its status is that of all
/// if the run itself succeeded.
pub(crate) fn execute_beside<E: FnOnce() -> u8>(
    args: &Args,
    form: Form,
    begin: impl FnOnce(&mut Router) -> Result<E, String>,
) -> u8 {
    // Click knows one status for all that is wrong before the run.
    let unusable = if form == Form::Click { 1 } else { exit::USAGE };
    let usage = |why: String| {
        errln!("junctor: {why}");
        unusable
    };
    let state = args.state.as_deref().map(State::new);
    let last = state.as_ref().and_then(|state| state.last(&args.source));
    let mut loaded = match last.map_or_else(|| args.source.load(), Ok) {
        Ok(loaded) => loaded,
        Err(why) => return usage(why),
    };
    if let Err(why) = say_who_controls(args, form) {
        return usage(why);
    }
    loaded.report(&loaded.diagnostics, form, !args.no_warnings);
    let Some(mut graph) = loaded.graph.take() else { return unusable };
    if let Some(wrong) = args.share.as_ref().and_then(|_| devices::needs_all(&graph)) {
        return outcome::usage(wrong);
    }
    if args.lock_memory
        && let Err(why) = lock_memory()
    {
        return outcome::fail(why);
    }
    let own = graph.elements.len();
    let for_restarts = state.as_ref().map(|_| graph.clone());
    add_control_sockets(&mut graph, args);
    let kept = Kept::from_environment();
    let planes = match domain::of(args.icc.as_deref(), &graph) {
        Ok(planes) => planes,
        Err(why) => return outcome::fail(why),
    };
    let (options, limit, patience) =
        match (options(args, kept.as_ref(), planes), time_limit(args), patience(args)) {
            (Ok(options), Ok(limit), Ok(patience)) => (options, limit, patience),
            (Err(why), ..) | (_, Err(why), _) | (.., Err(why)) => return usage(why),
        };
    let stats = match stats_period(args) {
        Ok(stats) => stats,
        Err(why) => return usage(why),
    };
    let listed = args.threads.as_ref().is_some_and(|text| text.parse::<usize>().is_err());
    let cores = if listed { &options.cores[..options.workers] } else { &[] };
    let workers = place::Workers { count: options.workers, cores };
    match place::read(&args.place, args.placement.as_deref(), workers) {
        Ok(places) => place::add(&mut graph, &places),
        Err(why) => return usage(why),
    }
    let config = packet::Config {
        frames: args.frames,
        frame_size: args.frame_size,
        shared: args.share_frames,
        ..Default::default()
    };
    if let Err(why) = packet::Memory::reserve(config) {
        return usage(why.to_string());
    }
    let graph = Arc::new(graph);
    let mut router = match Router::build_shared(&graph, &conf::registry(args.no_fuse), options) {
        Ok(router) => router,
        Err(errors) => {
            loaded.report(&errors, form, true);
            return unusable;
        }
    };
    loaded.report(&router.shared().warnings, form, !args.no_warnings);
    reconfigure::watch_workers(&mut router, patience);
    if let Some(period) = &args.adaptive
        && let Err(why) = balance(&mut router, period)
    {
        return usage(why);
    }
    if let Some(seed) = args.restless {
        reconfigure::move_at_random(&mut router, seed);
    }
    if args.big_lock {
        router.lock_all_processing();
    }
    if let Some(file) = &args.output
        && let Err(why) = write_flat(file, &router.shared().flat())
    {
        return outcome::fail(format!("{file}: {why}"));
    }
    let begun_as = router.shared().lineage().clone();
    let keeper = Keeper::new(args, router.control(), &graph, own);
    let is_empty = graph.elements.is_empty();
    // Another configuration may come; what this one says, keys among it, does not outlive it here.
    drop((loaded, graph));
    if args.allow_reconfigure {
        router.control().allow_reconfigure(keeper.by_handler());
    }
    let mut beside = exit::SUCCESS;
    if !args.quit {
        if is_empty {
            warn_of_nothing(args, form);
        } else {
            let recording = Arc::new(Live::new(router.control(), crate::profile::command_line()));
            let socket = match control_socket(args, form, &router, &keeper, &recording) {
                Ok(socket) => socket,
                Err(why) => return outcome::fail(why),
            };
            let _published = stats.and_then(|period| {
                let unseen =
                    |why: String| warn(args, &format!("'junctor top' cannot see this router: {why}"));
                let socket = socket.as_ref().map(|socket| socket.path());
                publish::begin(router.control(), socket, period, unseen)
            });
            let end = match begin(&mut router) {
                Ok(end) => end,
                Err(why) => return outcome::fail(why),
            };
            if let (Some(state), Some(graph)) = (&state, for_restarts) {
                state.keep(&graph);
                state.keep_neighbours(router.control());
            }
            kept.iter().for_each(|kept| kept.running(true));
            wellbeing::notify(router.control(), kept.clone());
            let started = Instant::now();
            run(&mut router, limit, args.source.path().map(|_| keeper));
            kept.iter().for_each(|kept| kept.running(false));
            if args.print_time {
                print_time(form, started.elapsed());
            }
            // Before the socket goes, so that who waits for it finds all of it.
            if let Err(why) = recording.end() {
                warn(args, &format!("the recording under way: {why}"));
            }
            beside = end();
        }
    }
    if let Some(file) = &args.account
        && let Err(why) = account(&router, &begun_as, file)
    {
        return outcome::fail(format!("{file}: {why}"));
    }
    match finish(args, form, &mut router) {
        exit::SUCCESS => beside,
        status => status,
    }
}

/// Adds a line for each element whose packets are not accounted for, and one for the whole router. A configuration that came later
/// has counters of two, so it has no account.
fn account(router: &Router, begun_as: &Arc<()>, file: &str) -> std::io::Result<()> {
    use std::io::Write as _;
    let mut file = std::fs::OpenOptions::new().create(true).append(true).open(file)?;
    let (shared, report) = (router.shared(), router.report());
    if !router.left_behind().is_empty() || !Arc::ptr_eq(shared.lineage(), begun_as) {
        return writeln!(file, "no account");
    }
    for wrong in report.unaccounted(shared) {
        writeln!(file, "{wrong}")?;
    }
    let usage = packet::memory().usage();
    let frames = usage.total - usage.free;
    if !report.explains(frames) {
        writeln!(
            file,
            "{frames} frames of packet memory are in use, which is not what elements say that they hold"
        )?;
    }
    let moved: u64 = report.elements.iter().map(|e| e.inputs).sum();
    writeln!(file, "accounted for {moved}")
}

/// Locks all memory, that to come, too.
fn lock_memory() -> Result<(), String> {
    use nix::sys::mman::{MlockAllFlags, mlockall};
    mlockall(MlockAllFlags::MCL_CURRENT | MlockAllFlags::MCL_FUTURE).map_err(|why| {
        format!(
            "--lock-memory: {why}; start as root, with CAP_IPC_LOCK, or raise the limit (ulimit -l unlimited)"
        )
    })
}

/// Lets tasks move to where they are best.
fn balance(router: &mut Router, period: &str) -> Result<(), String> {
    router.write("balancer.period", period).map_err(|why| format!("--adaptive: {why}"))?;
    router.write("balancer.active", "true").map_err(|why| format!("--adaptive: {why}"))
}

fn warn(args: &Args, message: &str) {
    if !args.no_warnings {
        errln!("junctor: warning: {message}");
    }
}

/// Says that there is nothing to run, in Click's words where it is called so.
fn warn_of_nothing(args: &Args, form: Form) {
    const NOTHING: &str = "configuration has no elements, exiting";
    match (form, &args.source.expression) {
        (Form::Click, _) if args.no_warnings => {}
        (Form::Click, Some(_)) => errln!("warning: config: {NOTHING}"),
        (Form::Click, None) => errln!("warning: {}: {NOTHING}", args.source.path().unwrap_or("<stdin>")),
        _ => warn(args, NOTHING),
    }
}

/// Opens the socket for `junctor ctl`. Only one that was asked for must be had.
fn control_socket(
    args: &Args,
    form: Form,
    router: &Router,
    keeper: &Arc<Keeper>,
    recording: &Arc<Live>,
) -> Result<Option<control::Served>, String> {
    let offered = || Offered::new(router.control(), keeper.clone(), recording.clone());
    if form != Form::Click {
        calls::serve(&offered());
        liveness::serve(&router.control());
        match client::channel::socket(args.icc.as_deref()) {
            Some(place) => feeds::serve(&router.control(), place),
            None if router.shared().all_provided::<elements::ip::FeedSink>().is_empty() => {}
            None => warn(
                args,
                "RouteFeed takes no routes: there is no domain of channels; use --icc SOCKET, or 'junctor up'",
            ),
        }
    }
    match args.control.as_deref() {
        Some("none") => Ok(None),
        Some(path) => control::listen(std::path::Path::new(path), offered()).map(Some),
        None if form == Form::Click || args.simtime.is_some() => Ok(None),
        None => Ok(control::listen_by_default(offered()).unwrap_or_else(|why| {
            warn(args, &format!("'junctor ctl' cannot reach this router: {why}"));
            None
        })),
    }
}

/// Makes known who may control the router. Scripts that call `click` know of no tokens, so their ports on the loopback address are open
/// unless a token is asked for, and it is said.
fn say_who_controls(args: &Args, form: Form) -> Result<(), String> {
    let group = args.control_group.as_deref().map(ctl::group).transpose();
    let group = group.map_err(|why| format!("--control-group: {why}"))?;
    let as_click = form == Form::Click;
    let open = args.control_open || (as_click && args.control_token.is_none());
    if !args.port.is_empty() && !open && args.control_token.is_none() {
        let port = &args.port[0];
        return Err(format!(
            "--port {port}: every user of this machine would have the rights of the router; give --control-token FILE, \
             --control-open if that is meant, or use --unix-socket"
        ));
    }
    if as_click && open && !args.port.is_empty() {
        warn(
            args,
            "every user of this machine can control this router by its port; --control-token FILE asks for a token",
        );
    }
    ctl::Policy { open, token_file: args.control_token.clone(), group, as_click }.establish();
    Ok(())
}

fn add_control_sockets(graph: &mut lang::Graph, args: &Args) {
    let tcp = args.port.iter().map(|port| format!("tcp, {}", lang::config::quote(port)));
    let unix = args.unix_socket.iter().map(|file| format!("unix, {}", lang::config::quote(file)));
    let span = lang::Span { file: 0, start: 0, end: 0 };
    let connected = args.socket.iter().map(|descriptor| format!("socket, {descriptor}"));
    for (i, config) in tcp.chain(unix).chain(connected).enumerate() {
        let number = if i == 0 { String::new() } else { format!("@{i}") };
        graph.elements.push(lang::Element {
            name: format!("click_driver@@ControlSocket{number}").into(),
            class: "ControlSocket".into(),
            config: config.into(),
            span,
            class_span: span,
            config_span: None,
        });
    }
}

fn options(
    args: &Args,
    kept: Option<&Arc<Kept>>,
    planes: Option<Arc<ports::plane::Planes>>,
) -> Result<Options, String> {
    let time = match args.simtime {
        None => TimeSource::Real,
        Some(epoch) if epoch.is_finite() && epoch >= 0.0 => TimeSource::Simulated((epoch * 1e9) as u64),
        Some(epoch) => return Err(format!("--simtime expects seconds after the epoch, not {epoch}")),
    };
    let (workers, cores) = match (&args.threads, time) {
        (None, TimeSource::Simulated(_)) => (1, Vec::new()),
        (None, TimeSource::Real) => {
            let cores = cores::allowed();
            (cores.len().max(1), cores)
        }
        (Some(text), _) => cores::parse(text)?,
    };
    let (reserve, cores) = reserve(args.max_threads, workers, cores)?;
    let burst = args.burst.unwrap_or(engine::DEFAULT_BURST);
    if !(1..=256).contains(&burst) {
        return Err(format!("--burst must lie between 1 and 256, not {burst}"));
    }
    let provider = devices::of_router(kept.map(|kept| kept.clone() as _), planes, args.share.as_deref());
    let seed = args.seed.unwrap_or_else(|| match time {
        TimeSource::Real => RandomState::new().hash_one(0),
        TimeSource::Simulated(_) => 1,
    });
    let placer = Some(reconfigure::placer());
    Ok(Options { provider, workers, reserve, cores, burst, time, seed, print: None, placer })
}

/// How many workers may be added to those that begin, and the cores of all: theirs, and the others for those that come.
fn reserve(
    most: Option<usize>,
    workers: usize,
    mut cores: Vec<usize>,
) -> Result<(usize, Vec<usize>), String> {
    let Some(most) = most else { return Ok((0, cores)) };
    if most < workers || most > cores::MOST_WORKERS {
        return Err(format!(
            "--max-threads expects a number from that of --threads, {workers}, to {}, not {most}",
            cores::MOST_WORKERS
        ));
    }
    if most > workers {
        let allowed = cores::allowed();
        if most > allowed.len() {
            cores::say_shared(&format!("up to {most}"), allowed.len());
        }
        // Workers beyond the cores that were listed begin anew with the first.
        cores.truncate(workers);
        let others: Vec<usize> = allowed.into_iter().filter(|core| !cores.contains(core)).collect();
        cores.extend(others);
    }
    Ok((most - workers, cores))
}

const MIN_STATS_PERIOD: Duration = Duration::from_millis(10);
const MAX_STATS_PERIOD: Duration = Duration::from_secs(3600);

fn time_limit(args: &Args) -> Result<Option<Duration>, String> {
    let Some(text) = &args.time else { return Ok(None) };
    let time = engine::parse_duration(text);
    time.map(Some)
        .ok_or_else(|| format!("--time expects seconds, or a time with unit such as 500ms, not '{text}'"))
}

/// How often counters are published, if they are.
fn stats_period(args: &Args) -> Result<Option<Duration>, String> {
    match (args.stats.as_str(), engine::parse_duration(&args.stats)) {
        ("none", _) => Ok(None),
        // On simulated time, what a worker is asked would take its turn.
        _ if args.simtime.is_some() => Ok(None),
        (_, Some(period)) if (MIN_STATS_PERIOD..=MAX_STATS_PERIOD).contains(&period) => Ok(Some(period)),
        (text, _) => {
            Err(format!("--stats expects a time from 10 ms to 1 h, such as 250ms, or none, not '{text}'"))
        }
    }
}

/// How long a worker may stand still.
fn patience(args: &Args) -> Result<Option<Duration>, String> {
    match engine::parse_duration(&args.watchdog) {
        Some(time) if time.is_zero() => Ok(None),
        Some(time) if time >= Duration::from_millis(250) => Ok(Some(time)),
        _ => Err(format!(
            "--watchdog expects a time of 250 ms or more, such as 5s, or 0 for never, not '{}'",
            args.watchdog
        )),
    }
}

/// How soon what was deleted is gone from memory, keys among it, if nothing else is changed.
const RECLAIM_EVERY: Duration = Duration::from_secs(1);

/// Runs the router until it stops, is interrupted, or `limit` has passed. SIGHUP reads the configuration's file anew if
/// somebody keeps it.
pub(crate) fn run(router: &mut Router, limit: Option<Duration>, file: Option<Arc<Keeper>>) {
    let control = router.control();
    watch_signals(control.clone(), file);
    router.accompany("reclaimer", |control, _, over| {
        while over.recv_timeout(RECLAIM_EVERY) == Err(RecvTimeoutError::Timeout) {
            control.reclaim();
        }
    });
    if let Some(limit) = limit {
        router.stop_after(limit);
    }
    router.run();
}

/// Hands signals to the elements that ask for them. Otherwise SIGINT and SIGTERM end the router, the second of them the
/// process, SIGHUP brings a new configuration, and other signals do what they always do.
fn watch_signals(control: Control, file: Option<Arc<Keeper>>) {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    let mut wanted = control.shared().signals();
    wanted.retain(|s| !signal_hook::consts::FORBIDDEN.contains(s));
    wanted.extend([SIGINT, SIGTERM]);
    wanted.extend(file.as_ref().map(|_| SIGHUP));
    let Ok(mut signals) = signal_hook::iterator::Signals::new(wanted) else { return };
    keeper::remember_signals(signals.handle());
    std::thread::spawn(move || {
        // Without it, an interrupt waits until the workers rest.
        let _ = sync::priority::before_workers();
        let mut stopping = false;
        for signal in signals.forever() {
            if !stopping && control.signal(signal) {
                continue;
            }
            if let (SIGHUP, Some(keeper)) = (signal, &file) {
                // On a thread of its own: the router can be interrupted meanwhile.
                let keeper = keeper.clone();
                std::thread::spawn(move || keeper.by_file());
                continue;
            }
            if signal != SIGINT && signal != SIGTERM {
                let _ = signal_hook::low_level::emulate_default_handler(signal);
            } else if std::mem::replace(&mut stopping, true) {
                std::process::exit(128 + signal);
            } else {
                control.stop();
            }
        }
    });
}

fn write_flat(file: &str, text: &str) -> std::io::Result<()> {
    if file == "-" {
        out!("{text}");
        return Ok(());
    }
    std::fs::write(file, text)
}

/// Prints how long the run took: as Click does, the processor's time in the program and in the kernel, and the time that passed.
fn print_time(form: Form, passed: Duration) {
    if form != Form::Click {
        return outln!("{:.3}", passed.as_secs_f64());
    }
    let stat = procfs::process::Process::myself().and_then(|process| process.stat());
    let ticks = procfs::ticks_per_second().max(1) as f64;
    let (user, system) = stat.map_or((0, 0), |stat| (stat.utime, stat.stime));
    let (minutes, seconds) = (passed.as_secs() / 60, passed.as_secs_f64() % 60.0);
    outln!("{:.3}u {:.3}s {minutes}:{seconds:05.2}", user as f64 / ticks, system as f64 / ticks);
}

/// Answers what was asked for after the run.
fn finish(args: &Args, form: Form, router: &mut Router) -> u8 {
    let left = !router.left_behind().is_empty();
    let mut status = if left { exit::FAILURE } else { exit::SUCCESS };
    if args.report {
        out!("{}", crate::describe::report(router));
    }
    for why in print_handlers(&args.handlers, form, router) {
        complain(form, &why);
        status = exit::FAILURE;
    }
    if let Some(handler) = &args.exit_handler {
        status = exit_status_of(handler, form, router);
    }
    // A run of which something was left behind is no success, whatever the rest says.
    if left && status == exit::SUCCESS { exit::FAILURE } else { status }
}

fn complain(form: Form, why: &str) {
    match form {
        Form::Click => errln!("{why}"),
        _ => errln!("junctor: {why}"),
    }
}

/// The status that a handler's value asks for; where it cannot be had, -1 as Click has it, or failure.
fn exit_status_of(handler: &str, form: Form, router: &mut Router) -> u8 {
    let why = match (router.read(handler, ""), form) {
        (Ok(value), form) => match (exit_status(value.trim()), form) {
            (Some(status), _) => return status,
            (None, Form::Click) => "exit handler value should be integer".to_owned(),
            (None, _) => {
                format!("the exit handler's value should be an integer or a boolean, not '{}'", value.trim())
            }
        },
        (Err(HandlerError::NoHandler(_) | HandlerError::Denied(_)), Form::Click) => {
            format!("no '{handler}' read handler")
        }
        (Err(why), Form::Click) => why.to_string(),
        (Err(why), _) => format!("{handler}: {why}"),
    };
    complain(form, &why);
    if form == Form::Click { u8::MAX } else { exit::FAILURE }
}

fn exit_status(value: &str) -> Option<u8> {
    let number = engine::parse_integer(value).map(|n| n as u8);
    number.or_else(|| engine::args::parse_bool(value).map(|good| u8::from(!good)))
}

/// Prints handlers as Click does: a single one's value alone, several, and those that a pattern or class finds, with their names. What could not be
/// read, and why.
fn print_handlers(wanted: &[String], form: Form, router: &mut Router) -> Vec<String> {
    let mut failed = Vec::new();
    for name in wanted {
        let found = match expand(name, router) {
            Ok(found) => found,
            Err(why) if form == Form::Click => {
                failed.push(why);
                continue;
            }
            Err(_) => None,
        };
        let named = wanted.len() > 1 || found.is_some();
        for full in found.unwrap_or_else(|| vec![name.clone()]) {
            match router.read(&full, "") {
                Ok(value) => {
                    let end = if value.is_empty() || value.ends_with('\n') { "" } else { "\n" };
                    if named {
                        outln!("{full}:\n{value}{end}");
                    } else {
                        out!("{value}{end}");
                    }
                }
                Err(why) => failed.push(unread(&full, &why, form)),
            }
        }
    }
    failed
}

/// Why a handler could not be read, in Click's words where it is called so.
fn unread(full: &str, why: &HandlerError, form: Form) -> String {
    match (form, why) {
        (Form::Click, HandlerError::NoHandler(_)) => format!("no '{full}' handler"),
        (Form::Click, HandlerError::Denied(_)) => format!("'{full}' is a write handler"),
        (Form::Click, _) => why.to_string(),
        _ => format!("{full}: {why}"),
    }
}

/// The handlers that `pattern.handler` means where no element is called so: by glob or class, of elements that have it.
fn expand(full: &str, router: &Router) -> Result<Option<Vec<String>>, String> {
    let shared = router.shared();
    let (pattern, handler) = full.rsplit_once('.').unwrap_or(("", full));
    if pattern.is_empty() || shared.lookup(pattern, None).is_some() {
        return Ok(None);
    }
    let glob = pattern.contains(['*', '?', '[']);
    let matches = |e: &engine::ElementInfo| {
        if glob { engine::glob_match(pattern, &e.name) } else { e.class.name == pattern }
    };
    let elements: Vec<_> = shared.elements.iter_enumerated().filter(|(_, e)| matches(e)).collect();
    if elements.is_empty() {
        let matching = if glob { "matching " } else { "" };
        return Err(format!("no element {matching}'{pattern}'"));
    }
    let having = elements.into_iter().filter(|(i, _)| shared.is_readable(*i, handler));
    Ok(Some(having.map(|(_, e)| format!("{}.{handler}", e.name)).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_statuses() {
        assert_eq!(
            ["0", "3", "true", "false", "x"].map(exit_status),
            [Some(0), Some(3), Some(0), Some(1), None]
        );
    }
}
