// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor test agent` and `junctor test gather`: the machines that take part in a test.
//!
//! An agent runs on each machine (generator, device, sink). It reports to controllers what its machine counts, and sends and receives for one
//! controller at a time ([`driven`]), which drives it as a [`remote`] member of its station. It answers only holders of its key ([`channel`]), and
//! sends nothing any more once its controller is gone or silent.

mod channel;
mod counters;
mod driven;
mod gather;
mod gauge;
mod places;
mod remote;
mod words;

use std::io::{self, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde::Serialize;
use tester::station::Member as _;
use tester::trial::Invalid;

use super::{Error, Failure};
use crate::error::ChannelError;
use channel::Channel;
use counters::{Counters, Ticks};
use driven::{Driven, Wheel};
use places::{GuestPlace, Places, Stranger};

pub(super) use channel::AgentKey;
pub(super) use gather::run as gather;
pub use gather::{Agent, Gather};
pub(super) use gauge::{Machines, Reading};
pub(super) use remote::Remote;
pub(super) use words::{Ask, Hello, Opened, PortWord, Question, Reach};

/// What these processors of this machine did until now; nothing if they are none of its.
pub(super) fn processor_ticks(numbers: &[usize]) -> Option<Ticks> {
    Ticks::of(numbers)
}

/// An agent hangs up on a controller that says nothing for so long.
const IDLE: Duration = Duration::from_secs(600);
/// In a trial, each side hears from the other at least so often, or it is over.
const LEASE: Duration = Duration::from_secs(10);
/// How long an agent may take for what takes time. To get ready is: the kernel may have it wait for all processors, and those that are
/// ready wait as long.
const PATIENCE: Duration = Duration::from_secs(120);
/// How long a stranger has for each word until it has shown the key.
const INTRODUCTION: Duration = Duration::from_secs(5);

/// What an agent is started for.
#[derive(Clone, Debug)]
pub enum Duty {
    /// Make a key, write it into this file, and end.
    MakeKey(PathBuf),
    /// Report to controllers what this machine counts, and send and receive for them, until stopped.
    Serve {
        /// The file with the key that controller and agents share.
        key: PathBuf,
        /// Address and port to be called at; with port 0 a free one, which is printed.
        listen: String,
    },
}

/// Runs the agent until it is stopped, or makes a key.
pub(super) fn run(args: &Duty) -> Result<(), Failure> {
    let done = match args {
        Duty::MakeKey(path) => AgentKey::make(path),
        Duty::Serve { key, listen } => AgentKey::read(key).and_then(|key| serve_all(&key, listen)),
    };
    done.map_err(Failure::from)
}

fn serve_all(key: &AgentKey, at: &str) -> Result<(), Error> {
    let cannot = format!("cannot listen on {at}");
    let listen = Error::advised(cannot, "; --listen names address and port");
    let listener = TcpListener::bind(at).map_err(&listen)?;
    let address = listener.local_addr().map_err(&listen)?;
    // A program that starts an agent on a free port waits for this line.
    outln!("listening on {address}");
    io::stdout().flush()?;
    let began = Instant::now();
    let (places, wheel) = (Places::default(), Wheel::default());
    std::thread::scope(|scope| {
        loop {
            let (stream, who) = match listener.accept() {
                Ok(caller) => caller,
                Err(why) if why.kind() == io::ErrorKind::ConnectionAborted => continue,
                Err(why) => return Err(listen(why)),
            };
            let (places, wheel) = (&places, &wheel);
            let stranger = match places.receive(&stream) {
                Ok(stranger) => stranger,
                Err(why) => {
                    errln!("{who}: {why}");
                    continue;
                }
            };
            scope.spawn(move || {
                let served = introduce(stream, places, stranger, key)
                    .and_then(|known| known.map_or(Ok(()), |known| serve(known, who, began, wheel)));
                if let Err(why) = served {
                    errln!("{who}: {why}");
                }
            });
        }
    })
}

/// A controller that has shown the key.
struct Known<'a> {
    channel: Channel,
    /// What it asks first.
    first: Ask,
    place: GuestPlace<'a>,
}

/// Hears who calls. It has a place once it has said something with the key of this connection, which nobody can who repeats what others
/// have said; nothing if it hangs up before.
fn introduce<'a>(
    stream: TcpStream,
    places: &'a Places,
    stranger: Stranger<'a>,
    key: &AgentKey,
) -> Result<Option<Known<'a>>, ChannelError> {
    let mut channel = Channel::accept(stream, key, INTRODUCTION, || !places.are_taken())?;
    let Some(first) = hear(&mut channel)? else { return Ok(None) };
    let place = stranger.seat().ok_or(ChannelError::Busy(places::PLACES))?;
    Ok(Some(Known { channel, first, place }))
}

/// What a controller asks; nothing if it has hung up.
fn hear(channel: &mut Channel) -> Result<Option<Ask>, ChannelError> {
    match channel.hear() {
        Ok(asked) => Ok(Some(asked)),
        Err(ChannelError::Io(why)) if why.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        Err(why) => Err(why),
    }
}

/// Serves one controller until it hangs up. What it had the agent drive ends with that.
fn serve(known: Known<'_>, who: SocketAddr, began: Instant, wheel: &Wheel) -> Result<(), ChannelError> {
    let Known { mut channel, first, place: _place } = known;
    let mut driven: Option<Driven> = None;
    let mut silence = IDLE;
    let mut asked = Some(first);
    while let Some(ask) = asked {
        silence = silence_after(&ask).unwrap_or(silence);
        match ask {
            Ask::Hello => channel.say(&Hello {
                version: env!("CARGO_PKG_VERSION").to_owned(),
                machine: report::measure::machine(),
                clock: clock(),
            })?,
            Ask::Counters => answer(&mut channel, Counters::read(began))?,
            Ask::Open(ports, driver) => {
                driven = None;
                let opened = Driven::open(wheel, who, ports, driver).map(|new| driven.insert(new).opened());
                answer(&mut channel, opened)?;
            }
            Ask::Close => {
                driven = None;
                channel.say(&())?;
            }
            Ask::Abandon => {
                if let Some(post) = driven.as_mut().and_then(|driven| driven.post.as_mut()) {
                    post.abandon();
                }
                channel.say(&())?;
            }
            other => match &mut driven {
                Some(driven) => drive(&mut channel, driven, other)?,
                None => channel.say(&Err::<(), _>("no interface is taken"))?,
            },
        }
        channel.wait_at_most(silence)?;
        asked = hear(&mut channel)?;
    }
    Ok(())
}

/// How long a controller may say nothing once it has asked for this; `None` if as long as before.
fn silence_after(ask: &Ask) -> Option<Duration> {
    match ask {
        Ask::Prepare(_) => Some(PATIENCE),
        Ask::Go(_) => Some(LEASE),
        Ask::Plan(_) | Ask::Finish | Ask::Cut | Ask::Abandon | Ask::Close => Some(IDLE),
        Ask::Hello
        | Ask::Counters
        | Ask::Open(..)
        | Ask::Calibrate(_)
        | Ask::Resolve(_)
        | Ask::Progress(_) => None,
    }
}

/// Answers with what was found, or with words that say why not.
fn answer<T: Serialize>(channel: &mut Channel, found: Result<T, Error>) -> Result<(), ChannelError> {
    channel.say(&found.map_err(|why| why.to_string()))
}

/// Does what is asked of one who has interfaces.
fn drive(channel: &mut Channel, driven: &mut Driven<'_>, asked: Ask) -> Result<(), ChannelError> {
    fn told<T: Serialize>(channel: &mut Channel, told: &Result<T, Invalid>) -> Result<(), ChannelError> {
        channel.say(told)
    }
    match asked {
        Ask::Calibrate(size) => answer(channel, driven.calibrate(size)),
        Ask::Resolve(question) => answer(channel, driven.resolve(&question)),
        Ask::Plan(plan) => told(channel, &driven.plan(&plan)),
        Ask::Prepare(order) => told(channel, &driven.post().and_then(|post| post.prepare(&order))),
        Ask::Go(start_ns) => told(channel, &driven.post().and_then(|post| post.go(start_ns))),
        Ask::Progress(count) => told(channel, &driven.post().and_then(|post| post.progress(count))),
        Ask::Finish => told(channel, &driven.post().and_then(|post| post.finish())),
        Ask::Cut => told(channel, &driven.post().map(|post| post.cut())),
        // Answered without interfaces too.
        Ask::Hello | Ask::Counters | Ask::Open(..) | Ask::Close | Ask::Abandon => Ok(()),
    }
}

/// What all have in common who read one steady clock: the kernel's run, and the namespace that may shift its clocks.
fn clock() -> String {
    let run = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let namespace = std::fs::read_link("/proc/self/ns/time").unwrap_or_default();
    format!("{} {}", run.trim(), namespace.display())
}

#[cfg(test)]
mod tests {
    use tester::station::{Offer, Order};

    use super::*;

    /// A member that is ready waits until the slowest is; one that sends hears more often, or stops.
    #[test]
    fn a_controller_may_be_silent_while_others_get_ready() {
        let order = Order {
            offer: Offer::Burst { rate: 1.0, frames: 1 },
            key: 0,
            own: Vec::new(),
            ahead: Duration::ZERO,
            grace: None,
            bin: None,
            sampling: None,
            is_reset: false,
            is_timed: true,
        };
        assert!(silence_after(&Ask::Prepare(order)).is_some_and(|silence| silence >= PATIENCE));
        assert_eq!(silence_after(&Ask::Go(1)), Some(LEASE));
        assert_eq!([Ask::Finish, Ask::Cut].map(|ask| silence_after(&ask)), [Some(IDLE); 2]);
        assert_eq!(silence_after(&Ask::Progress(true)), None);
    }
}
