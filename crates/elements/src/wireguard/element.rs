// SPDX-License-Identifier: MIT OR Apache-2.0
//! # WireGuard
//!
//! `WireGuard([FILE], keywords ADDRESS, PRIVATE_KEY, PORT, PEER [, HANDSHAKES, MTU, FOLLOW])`
//!
//! Carries IP packets to WireGuard peers and back.
//!
//! It does what an interface of Linux' WireGuard does: handshakes, keys that change, roaming peers, and the check that each peer sends only from its own addresses. Routes, firewalls and
//! addresses are up to the elements around it.
//!
//! **Ports:** two push inputs: 0 for packets to be sent through the tunnel, 1 for UDP packets from outside. Output 0 for UDP packets to the outside, output 1 for packets that
//! came through the tunnel. Output 2, if connected, for packets that would be too long and must not be fragmented: to ICMPError and ICMP6Error with `PMTU_ANNO true`.
//!
//! **Arguments**
//! * `FILE` a file in the form of `wg setconf` and `wg showconf`, with `[Interface]` and `[Peer]` sections. Words of `wg-quick` are mistakes: `wg-quick strip` takes them out.
//! * `ADDRESS` this side's outside address, from which datagrams are sent; one of each family may be given. Answers leave from the address to which the peer has sent.
//! * `PRIVATE_KEY` the private key, in place of the file's. `PORT` the UDP port, in place of the file's; default 51820.
//! * `PEER` a peer in the words of `wg set`: `KEY [preshared-key KEY] [endpoint ADDRESS:PORT] [persistent-keepalive SECONDS] [allowed-ips A/N,B/N]`. May be repeated. Quote it if
//!   it has a comma.
//! * `HANDSHAKES` handshakes in a second that the router works on at most; default 400. Beyond a quarter of them, senders must prove their addresses by cookies.
//! * `MTU` the longest packet in bytes that may leave; default 1500. `FOLLOW` elements with devices, whose lowest MTU takes its place.
//!
//! There can be 32,766 peers. A packet without a session begins a handshake and waits for it: 64 packets of a peer
//! at most, and 1,024 of all; then the oldest packet of the peer with the most gives way. Outer headers have TTL 64, no DSCP, the inner packet's ECN,
//! and may be fragmented.
//!
//! A hot swap keeps sessions, and peers that handlers have added, if the private key is the same. No counter is ever used twice with a key.
//!
//! **Metadata:** packets begin with their IP header. Sets the destination annotation: to the peer's address, or to the destination of what came through the tunnel. Packets for
//! output 2 have the longest length that would fit in the miscellaneous annotation.
//!
//! **Drops:** on the way out `no-peer`, `handshake-queue-full`, `handshake-unanswered`, `no-endpoint`, `must-fragment`, `too-long`, `bad-length`, `sequence-exhausted`, `no-memory`. On the way in `bad-wireguard`,
//! `not-for-us` (another port), `bad-fragment`, `no-session`, `replayed`, `outside-window`, `bad-icv`, `not-allowed`, `handshake-refused`, `handshake-limited`.
//!
//! **Handlers**
//! * `peers` read: each peer on a line in the form of `wg show INTERFACE dump`: public key, `(hidden)` or `(none)` for the preshared key, endpoint, allowed IPs, latest handshake in
//!   seconds since 1970, bytes received, bytes sent, keepalive; separated by tabs. `count` read: how many there are.
//! * `public_key` read: this side's. `port` read.
//! * `set_peer` write: as the argument PEER. A new peer is added; of one that is there, what is said changes. `remove_peer` write: its key.
//!
//! Keys are secrets: handlers, recordings and messages show `***` in their place.
//!
//! ```click
//! wg :: WireGuard(ADDRESS 192.0.2.1, PRIVATE_KEY dwdtCnMYpX08FsFyUbJmRd9ML4frwJkqsXf7pR25LCo=,
//!     PEER "3p7bfXt9wbTTW2HC7OQ1Nz+DQ8hbeGdNrfx+FG+IK08= endpoint 192.0.2.2:51820 allowed-ips 10.2.0.0/16");
//! Idle -> CheckIPHeader -> wg -> Discard;
//! Idle -> CheckIPHeader -> [1]wg[1] -> Discard;
//! ```
//!
//! See also: ESPTunnel, IPsecDatabase

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use element::args::Args;
use element::{
    Class, Cx, Element, HandlerError, HotSwap, InitCx, LockUse, Locking, OpenCx, PacketHolder, Provide,
    Provided, SharedState, Sharing, Tasks, When, handlers, swap,
};
use packet::Batch;
use sync::lock::How;
use wireguard::device::{Error, Shown};
use wireguard::gate::DEFAULT_LIMIT;
use wireguard::{Device, config};

use super::arguments::{self, Told};
use super::inward::inward;
use super::outward::outward;
use super::send::{TICK, lose, tick, wake};
use crate::io::mtu::LinkMtu;

/// The descriptor.
pub const CLASS: Class = Class::new("WireGuard", "2/2-3", || Box::new(WireGuard::default()))
    .processing("h/h")
    .sharing(Sharing::Shared)
    .secrets(config::secrets)
    .handlers(handlers! { WireGuard:
        read "peers" => |wireguard, cx| wireguard.device()?.show(cx.rcu()).iter().map(line).collect::<String>();
        read "count" => |wireguard| wireguard.device()?.count();
        read "public_key" => |wireguard| wireguard.device()?.public();
        read "port" => |wireguard, cx| wireguard.device()?.local(cx.rcu()).port;
        write "set_peer" => |wireguard, cx, text: &str| wireguard
            .change(cx, |device| device.set_peer(&config::parse_peer(text).map_err(failed)?).map_err(failed))?;
        write "remove_peer" => |wireguard, cx, key: &str| wireguard
            .change(cx, |device| device.remove_peer(&key.trim().parse().map_err(failed)?).map_err(failed))?;
    })
    .hot_swap::<WireGuard>().shared_state::<WireGuard>().locking::<WireGuard>().packet_holder::<WireGuard>().provide::<WireGuard>().file(file!());

/// The timer by which links are looked at.
const LOOK: u32 = 0;
/// Time until a configuration is followed again for which workers stood still, in nanoseconds.
const RETRY: u64 = wireguard::timers::TICK;

#[derive(Clone, Default)]
struct WireGuard {
    /// What the configuration says, until the device follows it.
    told: Arc<Mutex<Option<Told>>>,
    domain: sync::rcu::Domain,
    device: Option<Arc<Device>>,
    limit: u32,
    mtu: usize,
    follow: LinkMtu,
    /// The instance that counts the packets that wait, for the account.
    counts: bool,
}

impl WireGuard {
    fn told(&self) -> MutexGuard<'_, Option<Told>> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has the device do as the configuration says. What passes by itself leaves the configuration to be followed later.
    fn follow(&self) -> Result<(), Error> {
        let mut waits = self.told();
        let (Some(told), Some(device)) = (waits.take(), &self.device) else { return Ok(()) };
        device.set_limit(self.limit);
        let followed = device.set_local(told.local).and_then(|()| device.follow(&told.config));
        *waits = followed.as_ref().is_err_and(Error::is_passing).then_some(told);
        followed
    }

    /// Follows the configuration where it could not be done before, and says why it still cannot.
    fn follow_late(&self, cx: &mut Cx<'_>) {
        if let Err(why) = self.follow() {
            cx.print_once(&format!("{why}: the peers are not all as the configuration says"));
        }
        if self.told().is_some() {
            let next = cx.now() + RETRY;
            cx.set_timer(TICK, next);
        }
    }

    fn device(&self) -> Result<&Arc<Device>, HandlerError> {
        self.device.as_ref().ok_or_else(|| HandlerError::Failed("the router does not run".into()))
    }
}

fn text(why: Error) -> String {
    why.to_string()
}

fn failed(why: impl ToString) -> HandlerError {
    HandlerError::Failed(why.to_string())
}

/// A peer as `wg show INTERFACE dump` has it.
fn line(peer: &Shown) -> String {
    let or_none = |text: String| if text.is_empty() { "(none)".to_owned() } else { text };
    let networks: Vec<String> = peer.allowed.iter().map(ToString::to_string).collect();
    let (rx, tx) = peer.bytes;
    format!(
        "{}\t{}\t{}\t{}\t{}\t{rx}\t{tx}\t{}\n",
        peer.key,
        if peer.has_preshared { "(hidden)" } else { "(none)" },
        or_none(peer.endpoint.map(|endpoint| endpoint.to_string()).unwrap_or_default()),
        or_none(networks.join(",")),
        peer.handshake_wall_ns / 1_000_000_000,
        if peer.keepalive == 0 { "off".to_owned() } else { peer.keepalive.to_string() },
    )
}

impl WireGuard {
    fn change(
        &self,
        cx: &mut Cx<'_>,
        change: impl FnOnce(&Arc<Device>) -> Result<(), HandlerError>,
    ) -> Result<(), HandlerError> {
        let device = self.device()?;
        change(device)?;
        lose(cx, device);
        wake(cx, device);
        Ok(())
    }
}

impl Element for WireGuard {
    fn configure(&mut self, args: &mut Args<'_>) {
        let told = arguments::read(args);
        self.limit = args.keyword_in("HANDSHAKES", DEFAULT_LIMIT, 1..=1_000_000);
        self.mtu = args.keyword("MTU", 1500);
        self.follow = LinkMtu::from_args(args);
        self.domain = args.rcu.clone();
        self.counts = true;
        if let Some(told) = &told
            && told.config.peers.iter().any(|peer| peer.key == told.key.public())
        {
            args.error("a peer has the public key of this device itself");
        }
        self.told = Arc::new(Mutex::new(told));
    }

    fn open(&mut self, cx: &mut OpenCx<'_>) -> Result<Tasks, String> {
        let key = self.told().as_ref().map(|told| told.key.clone());
        let Some(key) = key else { return Ok(Tasks::None) };
        if let Some(before) = cx.predecessor::<Device>().filter(|before| before.has_key(&key)) {
            // It follows this configuration when no other one can fail any more.
            self.device = Some(before);
            return Ok(Tasks::None);
        }
        self.device = Some(Arc::new(Device::new(key, &self.domain, cx.workers).map_err(text)?));
        self.follow().map_err(text)?;
        Ok(Tasks::None)
    }

    fn initialize(&mut self, cx: &mut InitCx<'_>) -> Result<(), String> {
        if cx.is_home()
            && let Some(device) = &self.device
        {
            wake(cx, device);
        }
        self.follow.initialize(cx, LOOK)
    }

    fn run_timer(&mut self, cx: &mut Cx<'_>, timer: u32) {
        match (timer, &self.device) {
            (TICK, Some(device)) => {
                tick(cx, device);
                self.follow_late(cx);
            }
            _ => self.follow.look(cx, timer),
        }
    }

    fn push(&mut self, cx: &mut Cx<'_>, port: usize, batch: Batch) {
        let Some(device) = &self.device else { return };
        match port {
            0 => outward(cx, device, self.follow.or(self.mtu), batch),
            _ => inward(cx, device, self.follow.or(self.mtu), batch),
        }
    }
}

impl Provide for WireGuard {
    fn provide(&self) -> Option<Provided> {
        self.device.clone().map(|device| device as Provided)
    }
}

impl PacketHolder for WireGuard {
    fn held(&self) -> usize {
        self.device.as_ref().filter(|_| self.counts).map_or(0, |device| device.held())
    }
}

impl Locking for WireGuard {
    fn locks(&self) -> Vec<LockUse> {
        let why = "packets whose peer has no session wait behind it, and handshakes and timers take them out; others pass without it";
        vec![LockUse::new(How::Adaptive, "the packets that wait for handshakes", When::Exceptions, why)]
    }
}

impl SharedState for WireGuard {
    fn share(&self) -> Option<Box<dyn Element>> {
        Some(Box::new(WireGuard { counts: false, ..self.clone() }))
    }
}

impl HotSwap for WireGuard {
    fn take_state(&mut self, cx: &mut Cx<'_>, old: &mut dyn Element) -> bool {
        let Some(old) = swap::same::<WireGuard>(old) else { return false };
        if let (Some(mine), Some(theirs)) = (&self.device, &old.device)
            && Arc::ptr_eq(mine, theirs)
        {
            // What waits there waits here.
            old.counts = false;
        }
        if let Some(device) = &self.device {
            lose(cx, device);
            wake(cx, device);
        }
        self.follow_late(cx);
        true
    }
}

#[cfg(test)]
mod tests;
