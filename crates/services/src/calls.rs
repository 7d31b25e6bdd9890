// SPDX-License-Identifier: MIT OR Apache-2.0
//! Handler calls by the channels of a deployment (`kind = "calls"`): the control protocol over [`icc`], without a socket.
//!
//! Each channel has a thread that serves it, one client at a time. When the domain's server is replaced, the thread attaches to the new one.

use std::convert::Infallible;
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::time::Duration;

use client::channel;
use ctl::{Handlers, Service, Session};
use engine::{Access, HandlerError, Llrpc};
use icc::Stream;
use planes::deployment::call_endpoints;
use planes::up::domain::CALLS;

/// How long the server waits for the rest of a command, and for room for an answer.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long it waits for a client before it looks whether the domain is still served.
const LOOK: Duration = Duration::from_secs(1);
/// How long it waits before it attaches again.
const PAUSE: Duration = Duration::from_millis(100);
/// Bytes that are read at a time.
const AT_A_TIME: usize = 1 << 16;

/// Why a channel is not served at the moment.
#[derive(Debug, thiserror::Error)]
enum Interrupted {
    #[error(transparent)]
    Node(#[from] client::Failure),
    #[error("the domain's server has gone")]
    NotServed,
    #[error(transparent)]
    Attach(#[from] icc::AttachError),
    #[error(transparent)]
    Stream(#[from] std::io::Error),
}

/// Serves the channels by which this router's handlers are called, until the process ends.
pub fn serve<O: Handlers + Service + Clone + Send + 'static>(offered: &O) {
    let channels = std::env::var(CALLS).unwrap_or_default();
    let Some(place) = channel::socket(None) else { return };
    for channel in channels.split_ascii_whitespace() {
        let (channel, place, offered) = (channel.to_owned(), place.clone(), offered.clone());
        let body = move || serve_always(&channel, &place, offered);
        if let Err(why) = std::thread::Builder::new().name("calls".into()).spawn(body) {
            errln!("junctor: calls: {why}");
        }
    }
}

fn serve_always(channel: &str, place: &Path, offered: impl Handlers + Service) {
    // Without it, nothing comes while workers never rest.
    let _ = sync::priority::before_workers();
    let mut called = Called { channel: format!("channel {channel}"), offered };
    let mut said = String::new();
    loop {
        let Err(why) = serve_attached(channel, place, &mut called);
        let why = why.to_string();
        if why != said {
            errln!("junctor: calls by channel '{channel}': {why}; trying again");
            said = why;
        }
        std::thread::sleep(PAUSE);
    }
}

/// Serves one client after the other; returns why there can be none any more.
fn serve_attached(
    channel: &str,
    place: &Path,
    called: &mut Called<impl Handlers + Service>,
) -> Result<Infallible, Interrupted> {
    let node = channel::node(place)?;
    let [calls, answers] = call_endpoints(channel);
    let receiver = node.receiver(&calls)?;
    let sender = node.sender(&answers)?;
    let mut stream = Stream::server(sender, receiver, PATIENCE)?;
    loop {
        if stream.accept(LOOK)? {
            // A client that breaks off has had its say.
            let _ = converse(&mut stream, called, &|| !node.is_served() && channel::node(place).is_ok());
        } else if !node.is_served() {
            return Err(Interrupted::NotServed);
        }
    }
}

/// The router's handlers as the clients of a channel call them: what they write is said.
struct Called<O> {
    channel: String,
    offered: O,
}

impl<O: Handlers + Service> Handlers for Called<O> {
    fn access(&mut self, name: &str) -> Result<Access, HandlerError> {
        self.offered.access(name)
    }

    fn read(&mut self, name: &str, param: &str) -> Result<String, HandlerError> {
        self.offered.read(name, param)
    }

    fn write(&mut self, name: &str, value: &str) -> Result<String, HandlerError> {
        let done = self.offered.write(name, value);
        self.offered.wrote(name, value.len(), &self.channel, done.is_ok());
        done
    }

    fn llrpcs(&mut self, element: &str) -> &'static [Llrpc] {
        self.offered.llrpcs(element)
    }
}

/// Serves one client. Between commands it may take its time, unless the domain is served anew: then `is_over`. If the domain's server
/// died after the client had gone, nobody says that it has.
fn converse(
    stream: &mut Stream,
    called: &mut impl Handlers,
    is_over: &dyn Fn() -> bool,
) -> std::io::Result<()> {
    let mut session = Session::new(false, None);
    let mut bytes = vec![0; AT_A_TIME];
    loop {
        stream.set_patience(PATIENCE);
        stream.write_all(&session.take_output())?;
        if session.step(called) {
            continue;
        }
        if session.is_done() {
            return Ok(());
        }
        if !session.is_partial() {
            stream.set_patience(LOOK);
        }
        match stream.read(&mut bytes) {
            Ok(0) => return Ok(()),
            Ok(length) => session.receive(&bytes[..length]),
            Err(why) if why.kind() == std::io::ErrorKind::TimedOut && !session.is_partial() => {
                if is_over() {
                    return stream.hang_up();
                }
            }
            Err(why) => return Err(why),
        }
    }
}
