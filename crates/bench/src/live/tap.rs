// SPDX-License-Identifier: MIT OR Apache-2.0
//! A tap between zebra and the control plane: it passes the FPM stream on, and notes what it said when.

use std::collections::{HashMap, HashSet};
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::Error;
use control::counters::Tally;
use control::fpm;
use control::model::{Change, Object, RouteWay};
use feed::Destination;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use wire::Prefix4;

/// Bytes that are passed on at a time.
const READ_BYTES: usize = 64 << 10;
/// The protocol number of routes that are watched.
const BGP: u8 = 186;

/// See the module. It ends when the namespace's last zebra has closed its connection.
#[derive(Clone)]
pub(super) struct Tap(Arc<Shared>);

#[derive(Default)]
struct Shared {
    heard: Mutex<Heard>,
    /// Somebody waits for a sample.
    is_wanted: AtomicBool,
    streams: Mutex<Vec<TcpStream>>,
}

/// What the stream has said.
#[derive(Default)]
struct Heard {
    objects: HashMap<u32, Object>,
    /// Where routes lead, in all connections.
    known: HashMap<Prefix4, Ipv4Addr>,
    /// Routes that the connection has named.
    named: HashSet<Prefix4>,
    connections: u64,
    /// When the connection's last bytes came.
    last: Option<Instant>,
    sample: Option<Sample>,
}

/// A route that has just been announced, by which an address leads elsewhere than before.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    /// When its bytes came.
    pub(super) at: Instant,
    pub(super) prefix: Prefix4,
    pub(super) gateway: Ipv4Addr,
}

impl Tap {
    /// Listens at `from` in the network namespace of a process, and passes on to `to` there.
    pub(super) fn start(process: u32, from: SocketAddr, to: SocketAddr) -> Result<Tap, Error> {
        let tap = Tap(Arc::default());
        let failed = Error::system("tap between zebra and the control plane");
        let home = std::fs::File::open(format!("/proc/{process}/ns/net")).map_err(&failed)?;
        let ours = tap.clone();
        let (sender, listening) = std::sync::mpsc::sync_channel(1);
        std::thread::spawn(move || {
            use std::os::fd::AsFd as _;
            let moved = move_into_link_name_space(home.as_fd(), Some(LinkNameSpaceType::Network));
            let listener = moved.map_err(std::io::Error::from).and_then(|()| TcpListener::bind(from));
            let listener = match listener {
                Ok(listener) => listener,
                Err(why) => return drop(sender.send(Err(why))),
            };
            let _ = sender.send(Ok(()));
            while let Ok((zebra, _)) = listener.accept() {
                // Without a control plane the connection is closed, and zebra tries again.
                if let Ok(control) = TcpStream::connect(to) {
                    let _ = ours.pass(zebra, control);
                }
            }
        });
        listening.recv().map_err(std::io::Error::other).flatten().map_err(&failed)?;
        Ok(tap)
    }

    fn heard(&self) -> MutexGuard<'_, Heard> {
        self.0.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Passes bytes on until one of both ends.
    fn pass(&self, mut zebra: TcpStream, mut control: TcpStream) -> std::io::Result<()> {
        control.set_nodelay(true)?;
        let ends = [zebra.try_clone()?, control.try_clone()?];
        *self.streams() = ends.into();
        let (mut watched, mut other) = (control.try_clone()?, zebra.try_clone()?);
        std::thread::spawn(move || {
            // It says nothing; its end is zebra's.
            let _ = std::io::copy(&mut watched, &mut other);
            let _ = other.shutdown(Shutdown::Both);
        });
        {
            let mut heard = self.heard();
            heard.named.clear();
            heard.objects.clear();
            heard.connections += 1;
        }
        let (mut changes, mut tally) = (Vec::new(), Tally::default());
        let mut session = fpm::Session::new(Duration::ZERO, Duration::ZERO, &mut changes);
        let mut kept = Vec::new();
        let mut buffer = vec![0; READ_BYTES];
        loop {
            let read = zebra.read(&mut buffer)?;
            let at = Instant::now();
            if read == 0 {
                return control.shutdown(Shutdown::Both);
            }
            control.write_all(&buffer[..read])?;
            kept.extend(&buffer[..read]);
            let taken = session.take(&kept, Duration::ZERO, &mut changes, &mut tally);
            kept.drain(..taken.map_err(std::io::Error::other)?);
            let is_wanted = self.0.is_wanted.load(Ordering::Relaxed);
            let mut heard = self.heard();
            heard.last = Some(at);
            for change in changes.drain(..) {
                heard.note(change, at, is_wanted);
            }
            if heard.sample.is_some() {
                self.0.is_wanted.store(false, Ordering::Relaxed);
            }
        }
    }

    fn streams(&self) -> MutexGuard<'_, Vec<TcpStream>> {
        self.0.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Cuts the connection.
    pub(super) fn cut(&self) {
        self.streams().drain(..).for_each(|stream| drop(stream.shutdown(Shutdown::Both)));
    }

    /// Waits for a sample, at most so long.
    pub(super) fn sample(&self, limit: Duration) -> Option<Sample> {
        let begun = Instant::now();
        // What nobody took is too old.
        self.heard().sample = None;
        self.0.is_wanted.store(true, Ordering::Relaxed);
        while begun.elapsed() < limit {
            if let Some(sample) = self.heard().sample.take() {
                return Some(sample);
            }
            std::thread::sleep(Duration::from_micros(50));
        }
        None
    }

    /// Whether the stream has not said anything newer about a sample's route, nor about a longer one of its first address.
    pub(super) fn is_current(&self, sample: &Sample) -> bool {
        let heard = self.heard();
        heard.known.get(&sample.prefix) == Some(&sample.gateway) && !heard.is_hidden(sample.prefix)
    }

    /// How many routes the connection has named.
    pub(super) fn named(&self) -> usize {
        self.heard().named.len()
    }

    /// Connections so far.
    pub(super) fn connections(&self) -> u64 {
        self.heard().connections
    }

    /// When the last bytes came.
    pub(super) fn last(&self) -> Option<Instant> {
        self.heard().last
    }
}

impl Heard {
    fn note(&mut self, change: Change, at: Instant, is_wanted: bool) {
        match change {
            Change::Object { id, object } => _ = self.objects.insert(id, object),
            Change::Withdraw { prefix: Destination::V4(prefix), .. } => {
                self.known.remove(&prefix);
                self.named.remove(&prefix);
            }
            Change::Route { prefix: Destination::V4(prefix), route, .. } if route.protocol == BGP => {
                let Some(gateway) = self.gateway(&route.way) else { return };
                self.named.insert(prefix);
                if is_wanted && self.sample.is_none() && self.is_telling(prefix, gateway) {
                    self.sample = Some(Sample { at, prefix, gateway });
                }
                self.known.insert(prefix, gateway);
            }
            _ => {}
        }
    }

    /// The gateway of a route with a single one.
    fn gateway(&self, way: &RouteWay) -> Option<Ipv4Addr> {
        let hop = match way {
            RouteWay::One(hop) => hop,
            RouteWay::Object(id) => match self.objects.get(id)? {
                Object::Hop(hop) => hop,
                Object::Group(members) => return self.gateway(&RouteWay::Object(members.first()?.0)),
                _ => return None,
            },
            RouteWay::Many(_) | RouteWay::None => return None,
        };
        match hop.gateway? {
            std::net::IpAddr::V4(gateway) => Some(gateway),
            std::net::IpAddr::V6(_) => None,
        }
    }

    /// Whether the route's first address leads elsewhere before the route is in the table.
    fn is_telling(&self, prefix: Prefix4, gateway: Ipv4Addr) -> bool {
        let before = (0..=prefix.len()).rev().find_map(|len| self.of(prefix, len));
        !self.is_hidden(prefix) && before != Some(&gateway)
    }

    /// Whether a longer route decides about the route's first address.
    fn is_hidden(&self, prefix: Prefix4) -> bool {
        (prefix.len() + 1..=32).any(|len| self.of(prefix, len).is_some())
    }

    /// The gateway of the route of this length that begins at a prefix's first address.
    fn of(&self, prefix: Prefix4, len: u8) -> Option<&Ipv4Addr> {
        self.known.get(&Prefix4::new(prefix.addr(), len)?)
    }
}
