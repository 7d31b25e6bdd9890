// SPDX-License-Identifier: MIT OR Apache-2.0
//! Route feeds of a running router: threads that take the batches of control planes from channels and put them into the tables.
//!
//! Each channel that a RouteFeed names has a thread. It finds the element anew for each batch, because another configuration may have come.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use elements::routing::FeedSink;
use engine::Control;
use feed::Reply;
use icc::{AttachError, ChannelError, Receiver, Sender};
use planes::deployment::route_endpoints;
use ports::plane::Planes;

/// How often the configuration is searched for feeds, and the longest wait for a batch.
const LOOK: Duration = Duration::from_millis(500);
/// How long an answer waits for room. A control plane that takes none is dead or adversarial.
const PATIENCE: Duration = Duration::from_secs(1);
/// How long a batch waits for a configuration that is just taking over.
const TAKEOVER: Duration = Duration::from_millis(1);
const TAKEOVERS: usize = 30_000;
/// The wait before a channel is attached again.
const PAUSE: Duration = Duration::from_millis(100);

/// Why a channel is not served at the moment.
#[derive(Debug, thiserror::Error)]
enum Interrupted {
    #[error("another process serves the domain now")]
    ServedElsewhere,
    #[error(transparent)]
    Attach(#[from] AttachError),
    #[error(transparent)]
    Channel(#[from] ChannelError),
}

/// Serves the route feeds of a router by the domain at `place`, until the process ends.
pub fn serve(control: &Control, place: PathBuf) {
    let control = control.clone();
    let body = move || {
        // Without it, nothing comes while workers never rest.
        let _ = sync::priority::before_workers();
        let served = Arc::new(Served::default());
        loop {
            for sink in control.shared().all_provided::<FeedSink>() {
                begin(&control, &place, sink.channel(), &served);
            }
            std::thread::sleep(LOOK);
        }
    };
    spawn("feeds", body);
}

fn spawn(name: &str, body: impl FnOnce() + Send + 'static) {
    if let Err(why) = std::thread::Builder::new().name(name.into()).spawn(body) {
        errln!("junctor: route feeds: {why}");
    }
}

/// Channels that a thread serves.
type Served = Mutex<HashSet<String>>;

fn names(served: &Served) -> MutexGuard<'_, HashSet<String>> {
    served.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Begins to serve a channel, unless a thread does already.
fn begin(control: &Control, place: &Path, channel: &str, served: &Arc<Served>) {
    if !names(served).insert(channel.to_owned()) {
        return;
    }
    let (control, place, channel, served) =
        (control.clone(), place.to_owned(), channel.to_owned(), served.clone());
    spawn("feed", move || {
        let _ = sync::priority::before_workers();
        let (mut said, mut latest) = (String::new(), None);
        while let Some(sink) = find(&control, &channel) {
            latest = Some(sink);
            let served = serve_attached(&control, &place, &channel, &mut latest);
            if let Some(why) = served.err().map(|why| why.to_string()).filter(|why| *why != said) {
                errln!("junctor: route feed '{channel}': {why}; trying again");
                said = why;
            }
            std::thread::sleep(PAUSE);
        }
        if let Some(latest) = latest {
            retire(&channel, &latest);
        }
        names(&served).remove(&channel);
    });
}

/// The configuration has no place for the routes of a channel any more: they go.
fn retire(channel: &str, latest: &Arc<FeedSink>) {
    if let Err(why) = latest.retire() {
        errln!("junctor: route feed '{channel}' is not configured any more, but its routes stay: {why}");
    }
}

/// The element that takes the batches of a channel.
fn find(control: &Control, channel: &str) -> Option<Arc<FeedSink>> {
    control.shared().all_provided::<FeedSink>().into_iter().find(|sink| sink.channel() == channel)
}

/// Takes batches until the domain's server is gone or no element wants them.
fn serve_attached(
    control: &Control,
    place: &Path,
    channel: &str,
    latest: &mut Option<Arc<FeedSink>>,
) -> Result<(), Interrupted> {
    let node = Planes::at(place).node()?;
    let [updates, replies] = route_endpoints(channel);
    let mut receiver = node.receiver(&updates)?;
    let mut sender = node.sender(&replies)?;
    let (mut batch, mut looked) = (Vec::new(), Instant::now());
    loop {
        match next(&mut receiver, &mut batch)? {
            true => {
                let Some(reply) = apply(control, channel, &batch) else { return Ok(()) };
                answer(&mut sender, &reply)?;
            }
            false => {
                if !node.is_served() && Planes::at(place).node().is_ok() {
                    return Err(Interrupted::ServedElsewhere);
                }
            }
        }
        if looked.elapsed() >= LOOK {
            looked = Instant::now();
            let Some(sink) = find(control, channel) else { return Ok(()) };
            let present = sender.peer().present;
            if let Some(reply) = sink.retry(looked).filter(|_| present) {
                answer(&mut sender, &reply)?;
            }
            if let Some(why) = sink.needs_replay().filter(|_| present) {
                answer(&mut sender, &Reply::Replay { why })?;
            }
            *latest = Some(sink);
        }
    }
}

/// Waits for a batch; false if none came.
fn next(receiver: &mut Receiver, batch: &mut Vec<u8>) -> Result<bool, ChannelError> {
    let bytes = match receiver.next_bytes()? {
        Some(bytes) => bytes,
        None if receiver.wait(Some(LOOK))? => match receiver.next_bytes()? {
            Some(bytes) => bytes,
            None => return Ok(false),
        },
        None => return Ok(false),
    };
    batch.resize(bytes, 0);
    Ok(receiver.receive(batch)?.is_some())
}

/// Puts a batch into the tables of the present configuration; `None` if that has no such feed.
fn apply(control: &Control, channel: &str, batch: &[u8]) -> Option<Reply> {
    for _ in 0..TAKEOVERS {
        if let Some(reply) = find(control, channel)?.apply(batch) {
            return Some(reply);
        }
        std::thread::sleep(TAKEOVER);
    }
    Some(Reply::Replay { why: "the router was replacing its configuration".into() })
}

fn answer(sender: &mut Sender, reply: &Reply) -> Result<(), ChannelError> {
    match sender.send_within(&reply.encode(), PATIENCE) {
        // A control plane that takes no answers greets again.
        Ok(()) | Err(ChannelError::Full) => Ok(()),
        Err(why) => Err(why),
    }
}
