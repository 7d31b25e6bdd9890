// SPDX-License-Identifier: MIT OR Apache-2.0
//! The process: its feeds, its threads, and its end.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use control::{Asker, Plane, Rib, Uplink, daemons, fpm, kernel};
use planes::deployment::route_endpoints;
use planes::notify::Notifier;
use ports::plane::Planes;

use crate::{Keys, keys, served};

/// Where `junctor routes` reaches the control plane.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Socket {
    /// Where those of this user are found.
    #[default]
    Usual,
    /// At this path.
    At(PathBuf),
    /// Nowhere.
    None,
}

/// What a control plane takes routes from, and where it sends them.
#[derive(Debug)]
pub struct Settings {
    /// The socket of the router's domain of channels.
    pub domain: PathBuf,
    /// The channel that leads to the router.
    pub channel: String,
    /// The network namespace of the daemons and of the router's twins: a name, or a path.
    pub namespace: Option<PathBuf>,
    /// Where FRR's zebra connects to.
    pub fpm: Option<SocketAddr>,
    /// Sockets of daemons, by which their end is seen.
    pub daemons: daemons::Sockets,
    /// The table of routes: it knows VRFs, and which feeds to expect.
    pub rib: Rib,
    /// Where questions are answered.
    pub socket: Socket,
    /// What key daemons get.
    pub keys: Option<Keys>,
    /// Called by each thread that has opened what takes rights: it may give them up. The one that watches daemons does not call it.
    pub opened: fn(),
}

/// Why a control plane did not run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A feed cannot be had.
    #[error("{0}: {1}")]
    Feed(&'static str, #[source] io::Error),
    /// A socket cannot be made.
    #[error("{0}")]
    Socket(String),
    /// Signals cannot be received.
    #[error("signals: {0}")]
    Signals(#[source] io::Error),
}

/// Runs a control plane until a signal ends it. The router keeps its routes.
///
/// # Errors
/// It cannot begin.
pub fn run(settings: Settings) -> Result<(), Error> {
    let Settings { domain, channel, namespace, fpm, daemons, rib, socket, keys, opened } = settings;
    let uplink = Uplink::new(number_of_run(), connect(domain, channel));
    let (mut plane, reports, asker) = Plane::new(rib, uplink);
    let of_kernel = kernel::Settings { namespace: namespace.clone(), opened, ..kernel::Settings::default() };
    let feed = kernel::spawn(of_kernel, reports.clone(), Box::new(|text| errln!("junctor: kernel: {text}")));
    let mut feeds = vec![feed.map_err(|why| Error::Feed("kernel", why))?];
    if let Some(listen) = fpm {
        let settings = fpm::Settings { listen, namespace, opened, ..fpm::Settings::default() };
        let feed = fpm::spawn(settings, reports.clone(), Box::new(|text| errln!("junctor: fpm: {text}")));
        feeds.push(feed.map_err(|why| Error::Feed("fpm", why))?);
    }
    if daemons != daemons::Sockets::default() {
        let notices = Box::new(|text| errln!("junctor: daemons: {text}"));
        let watch = daemons::watch(daemons, reports.clone(), notices);
        feeds.push(watch.map_err(|why| Error::Feed("daemons", why))?);
    }
    opened();
    let _served = served::listen(&socket, asker.clone()).map_err(Error::Socket)?;
    let _keyed = keys.map(|keys| keys::serve(&keys)).transpose().map_err(Error::Socket)?;
    stop_by_signals(asker).map_err(Error::Signals)?;
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
fn stop_by_signals(asker: Asker) -> io::Result<()> {
    use signal_hook::consts::{SIGINT, SIGTERM};
    let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM])?;
    let body = move || {
        for _ in signals.forever() {
            asker.ask(|plane| plane.is_over = true);
        }
    };
    std::thread::Builder::new().name("signals".into()).spawn(body).map(drop)
}

/// How long an answer of the control plane may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
