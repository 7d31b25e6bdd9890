// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor control`: the control plane as a process.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use control::model::Source;
use control::{Asker, Plane, Rib, Uplink, daemons, fpm, kernel};
use planes::deployment::route_endpoints;
use planes::notify::Notifier;
use ports::plane::Planes;

use super::served;
use crate::{exit, outcome};

/// The name by which zebra's default address stands on the command line.
const DEFAULT: &str = "127.0.0.1:2620";

/// Learn routes from routing daemons, and keep a router's tables up to date.
///
/// The control plane takes routes of FRR (FPM) and of the kernel, where any daemon may have put them. It selects those that count and sends them to a router by a channel that a RouteFeed
/// element of the router names. It may end and come again: the router forwards meanwhile, and only differences are changed.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:
  junctor control routes                                   in a deployment, by its channel 'routes'
  junctor control routes --icc /run/r.icc --netns ctl      for 'junctor run --icc /run/r.icc router.click'
  junctor control routes --fpm 127.0.0.1:2621 --graceful 5m
  junctor control routes --vrf red=1001                    routes of table 1001 are those of the router's VRF red
  junctor control routes --xfrm /run/junctor/xfrm --calls steer   strongSwan keys the router's IPsecDatabase 'ipsec'

FRR needs 'zebra -M dplane_fpm_nl' and, for another address than 127.0.0.1:2620, 'fpm address' in its configuration.")]
pub(crate) struct Args {
    /// The channel of routes (kind = \"routes\") that leads to the router.
    channel: String,
    /// The socket of the router's domain, if not that of the deployment that started this program.
    #[arg(long, value_name = "SOCKET")]
    icc: Option<PathBuf>,
    /// The network namespace of the daemons and of the router's twins: a name of 'ip netns', or a path.
    #[arg(long, value_name = "NAME")]
    netns: Option<PathBuf>,
    /// Where FRR's zebra connects to, or none.
    #[arg(long, value_name = "ADDRESS[:PORT]", default_value = DEFAULT)]
    fpm: String,
    /// Where FRR's daemons have their sockets for vtysh, or none. The routes of a daemon that ends stay for the time of --graceful.
    #[arg(long, value_name = "DIRECTORY", default_value = "/run/frr")]
    vty_socket: String,
    /// Where BIRD has its socket for birdc, or none. What a BIRD removes shortly after its return stays for the time of --graceful.
    #[arg(long, value_name = "PATH", default_value = "/run/bird/bird.ctl")]
    bird_socket: String,
    /// Do not take routes from the kernel of the namespace, but interfaces only.
    #[arg(long)]
    no_kernel_routes: bool,
    /// How long the routes of a daemon that has gone stay, if it does not return.
    #[arg(long, value_name = "TIME", default_value = "120s")]
    graceful: String,
    /// A VRF of the router and the table of Linux that has its routes, as red=1001; may be repeated. The routes of other tables than these and
    /// the main one are left out.
    #[arg(long, value_name = "NAME=TABLE")]
    vrf: Vec<String>,
    /// The socket for 'junctor routes', or none; by default it is found by itself.
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    #[command(flatten)]
    ipsec: super::ipsec::Options,
}

/// What the options say.
struct Settings {
    domain: PathBuf,
    fpm: Option<SocketAddr>,
    rib: Rib,
}

impl Settings {
    fn read(args: &Args) -> Result<Settings, String> {
        let domain = client::channel::socket(args.icc.as_deref());
        let domain = domain.ok_or("there is no domain of channels: name its socket by --icc, or let 'junctor up' start this program")?;
        let mut rib = Rib::default();
        let grace = engine::parse_duration(&args.graceful);
        rib.set_grace(
            grace
                .ok_or_else(|| format!("--graceful expects a time such as 120s, not '{}'", args.graceful))?,
        );
        for text in &args.vrf {
            let read = text.split_once('=').and_then(|(name, table)| Some((name, table.parse().ok()?)));
            let (name, table) =
                read.ok_or_else(|| format!("--vrf expects NAME=TABLE, as red=1001, not '{text}'"))?;
            rib.add_vrf(name, table).map_err(|why| format!("--vrf {text}: {why}"))?;
        }
        rib.set_kernel_routes(!args.no_kernel_routes);
        rib.expect(Source::Kernel);
        let fpm = match args.fpm.as_str() {
            "none" => None,
            text => Some(read_address(text).ok_or_else(|| {
                format!("--fpm expects an address such as {DEFAULT}, or none, not '{text}'")
            })?),
        };
        if fpm.is_some() {
            rib.expect(Source::Fpm);
        }
        Ok(Settings { domain, fpm, rib })
    }
}

fn read_address(text: &str) -> Option<SocketAddr> {
    let alone = |text: &str| Some(SocketAddr::new(text.parse().ok()?, fpm::PORT));
    let port = |text: &str| Some(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), text.parse().ok()?));
    text.parse().ok().or_else(|| alone(text)).or_else(|| port(text))
}

/// Runs the command.
pub(crate) fn main(args: &Args) -> u8 {
    let settings = match Settings::read(args) {
        Ok(settings) => settings,
        Err(why) => return outcome::usage(why),
    };
    match run(args, settings) {
        Ok(()) => exit::SUCCESS,
        Err(why) => outcome::fail(why),
    }
}

fn run(args: &Args, settings: Settings) -> Result<(), String> {
    let Settings { domain, fpm, rib } = settings;
    let uplink = Uplink::new(number_of_run(), connect(domain, args.channel.clone()));
    let (mut plane, reports, asker) = Plane::new(rib, uplink);
    let namespace = kernel::Settings { namespace: args.netns.clone(), ..kernel::Settings::default() };
    let feed = kernel::spawn(namespace, reports.clone(), Box::new(|text| errln!("junctor: kernel: {text}")));
    let mut feeds = vec![feed.map_err(|why| format!("kernel: {why}"))?];
    if let Some(listen) = fpm {
        let settings = fpm::Settings { listen, namespace: args.netns.clone(), ..fpm::Settings::default() };
        let feed = fpm::spawn(settings, reports.clone(), Box::new(|text| errln!("junctor: fpm: {text}")));
        feeds.push(feed.map_err(|why| format!("fpm: {why}"))?);
    }
    let named = |text: &str| (text != "none").then(|| PathBuf::from(text));
    let sockets =
        daemons::Sockets { frr: fpm.and_then(|_| named(&args.vty_socket)), bird: named(&args.bird_socket) };
    if sockets != daemons::Sockets::default() {
        let notices = Box::new(|text| errln!("junctor: daemons: {text}"));
        let watch = daemons::watch(sockets, reports.clone(), notices);
        feeds.push(watch.map_err(|why| format!("daemons: {why}"))?);
    }
    let _served = served::listen(args.socket.as_deref(), asker.clone())?;
    let _keyed = super::ipsec::serve(&args.ipsec)?;
    stop_by_signals(asker)?;
    if let Some(notifier) = Notifier::from_environment() {
        notifier.send("READY=1\nSTATUS=learning routes");
    }
    plane.run();
    Ok(())
}

/// A number that no other run has, and never 0.
fn number_of_run() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |since| since.as_nanos() as u64);
    now.max(1)
}

/// Attaches to the channel that leads to the router.
fn connect(domain: PathBuf, channel: String) -> control::Connect {
    Box::new(move || {
        let [updates, replies] = route_endpoints(&channel);
        let node = Planes::at(Path::new(&domain)).node().map_err(|why| why.to_string())?;
        let failed = |why: icc::AttachError| format!("channel '{channel}': {why}");
        let (sender, receiver) =
            (node.sender(&updates).map_err(failed)?, node.receiver(&replies).map_err(failed)?);
        Ok(control::Ends { node, sender, receiver })
    })
}

/// Ends the control plane by SIGINT and SIGTERM. The router keeps its routes.
fn stop_by_signals(asker: Asker) -> Result<(), String> {
    use signal_hook::consts::{SIGINT, SIGTERM};
    let mut signals =
        signal_hook::iterator::Signals::new([SIGINT, SIGTERM]).map_err(|why| format!("signals: {why}"))?;
    let body = move || {
        for _ in signals.forever() {
            asker.ask(|plane| plane.is_over = true);
        }
    };
    let spawned = std::thread::Builder::new().name("signals".into()).spawn(body);
    spawned.map(drop).map_err(|why| format!("signals: {why}"))
}

/// How long an answer of the control plane may take.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);
