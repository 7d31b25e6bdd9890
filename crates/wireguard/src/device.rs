// SPDX-License-Identifier: MIT OR Apache-2.0
//! A device: a private key, a port, and the peers.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sync::rcu::{Cell, Domain, Reader};
use wire::Prefix;

use crate::allowed::{self, Allowed, PEERS_MAX};
use crate::config::{Config, PeerConfig};
use crate::cookie::Receiver;
use crate::endpoint::Local;
use crate::gate::Gate;
use crate::key::{PublicKey, Secret};
use crate::peer::Peer;
use crate::session::Session;
use crate::table::Table;
use crate::waiting::{Lost, Waiting};

/// Why a device cannot be as it should.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There are too many peers.
    #[error("more than {PEERS_MAX} peers")]
    TooManyPeers,
    /// A peer has this device's own key.
    #[error("a peer has the public key of this device itself")]
    OwnKey,
    /// No peer has this key.
    #[error("no peer has the key {0}")]
    Unknown(PublicKey),
    /// Networks cannot be given to peers.
    #[error(transparent)]
    Allowed(#[from] allowed::Refused),
    /// Workers have stood still for long.
    #[error("workers still use earlier tables; try again")]
    Busy,
}

impl Error {
    /// Whether it passes by itself, so that the same can be tried again.
    pub fn is_passing(&self) -> bool {
        use tables::{fib4::Fib4Error, fib6::Fib6Error};
        matches!(
            self,
            Error::Busy
                | Error::Allowed(allowed::Refused::Four(Fib4Error::Stalled { .. }))
                | Error::Allowed(allowed::Refused::Six(Fib6Error::Stalled { .. }))
        )
    }
}

/// Endpoints that are published in one go. What they replace is freed only when all workers have moved on, and the domain keeps a bounded number of such objects for all
/// of the router.
const PLACES_AT_ONCE: usize = 256;

/// A device. All workers use it at once.
pub struct Device {
    pub(crate) key: Secret,
    public: PublicKey,
    pub(crate) receiver: Receiver,
    local: Cell<Local>,
    pub(crate) allowed: Allowed,
    table: Cell<Table>,
    editor: Mutex<Editor>,
    pub(crate) gate: Mutex<Gate>,
    pub(crate) waiting: Waiting,
    domain: Domain,
    workers: usize,
    /// Where the next tick goes on.
    pub(crate) swept: AtomicUsize,
    /// When it is due, in nanoseconds.
    pub(crate) due: AtomicU64,
    /// How many peers in a row were found without anything that may happen.
    pub(crate) quiet: AtomicUsize,
    /// Endpoints of the configuration are still to be published.
    has_later: AtomicBool,
}

/// What changes peers.
struct Editor {
    /// What workers see when it is published.
    table: Table,
    /// Numbers below the highest one that no peer has.
    free: BTreeSet<u32>,
    writer: allowed::Writer,
    /// Peers that the configuration has, so that others stay when it changes.
    configured: BTreeSet<PublicKey>,
    /// Endpoints that are still to be published.
    later: BTreeMap<PublicKey, SocketAddr>,
}

/// Networks that peers lose, and that they get.
#[derive(Default)]
struct Changes {
    gone: Vec<(Prefix, Option<u32>)>,
    given: Vec<(Prefix, Option<u32>)>,
}

/// What a peer is now, for lists.
#[derive(Clone, Debug)]
pub struct Shown {
    /// Its key.
    pub key: PublicKey,
    /// Whether there is a preshared key.
    pub has_preshared: bool,
    /// Where it is.
    pub endpoint: Option<SocketAddr>,
    /// Its networks.
    pub allowed: Vec<Prefix>,
    /// When the latest handshake was, in nanoseconds since 1970; 0 for never.
    pub handshake_wall_ns: u64,
    /// Bytes received and sent.
    pub bytes: (u64, u64),
    /// Seconds between keepalives; 0 for none.
    pub keepalive: u16,
}

impl Device {
    /// A device with this key, whose workers are readers of `domain`. There are no peers yet.
    ///
    /// # Errors
    /// There is no memory.
    pub fn new(key: Secret, domain: &Domain, workers: usize) -> Result<Device, Error> {
        let public = key.public();
        let writer = allowed::Writer::new(domain)?;
        Ok(Device {
            key,
            public,
            receiver: Receiver::new(&public),
            local: Cell::new(domain, Local::default()),
            allowed: writer.reader(),
            table: Cell::new(domain, Table::default()),
            editor: Mutex::new(Editor {
                table: Table::default(),
                free: BTreeSet::new(),
                writer,
                configured: BTreeSet::new(),
                later: BTreeMap::new(),
            }),
            gate: Mutex::new(Gate::new(crate::gate::DEFAULT_LIMIT)),
            waiting: Waiting::new(),
            domain: domain.clone(),
            workers,
            swept: AtomicUsize::new(0),
            due: AtomicU64::new(0),
            quiet: AtomicUsize::new(0),
            has_later: AtomicBool::new(false),
        })
    }

    /// Its public key.
    pub fn public(&self) -> &PublicKey {
        &self.public
    }

    /// Whether this is its private key.
    pub fn has_key(&self, key: &Secret) -> bool {
        self.key == *key
    }

    /// Its port and addresses.
    #[inline]
    pub fn local<'a>(&'a self, reader: &'a Reader) -> &'a Local {
        self.local.read(reader)
    }

    #[inline]
    pub(crate) fn table<'a>(&'a self, reader: &'a Reader) -> &'a Table {
        self.table.read(reader)
    }

    /// A peer by its number.
    #[inline]
    pub fn peer<'a>(&'a self, reader: &'a Reader, number: u32) -> Option<&'a Arc<Peer>> {
        self.table(reader).get(number as usize)
    }

    /// The session that messages call by this index, and its peer.
    #[inline]
    pub(crate) fn session<'a>(&'a self, reader: &'a Reader, index: u32) -> Option<(&'a Peer, &'a Session)> {
        let (number, place) = crate::peer::place_of(index);
        let peer = self.table(reader).get(number)?;
        let session = peer.at(reader, place).filter(|session| session.local == index)?;
        Some((peer, session))
    }

    /// A peer by its key.
    pub(crate) fn find<'a>(&'a self, reader: &'a Reader, key: &PublicKey) -> Option<&'a Arc<Peer>> {
        self.table(reader).find(key)
    }

    fn edit(&self) -> MutexGuard<'_, Editor> {
        self.editor.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn gate(&self) -> MutexGuard<'_, Gate> {
        self.gate.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many peers there are.
    pub fn count(&self) -> usize {
        self.edit().table.count()
    }

    /// Lets so many handshakes through in a second.
    pub fn set_limit(&self, limit: u32) {
        self.gate().set_limit(limit);
    }

    /// Sends from this port and these addresses.
    ///
    /// # Errors
    /// [`Error::Busy`].
    pub fn set_local(&self, local: Local) -> Result<(), Error> {
        self.local.publish(local).map_err(|_| Error::Busy)
    }

    /// Has the peers of a configuration: takes away those that only the one before had, and adds or changes the others. Peers that were added otherwise stay, and
    /// so do sessions. Of many changed endpoints, some are published by the [ticks](Self::tick) that follow.
    ///
    /// # Errors
    /// What is wrong with a peer. Those before it are changed. After one that [passes](Error::is_passing), the same configuration can be followed again.
    pub fn follow(&self, config: &Config) -> Result<(), Error> {
        let wanted: BTreeSet<PublicKey> = config.peers.iter().map(|peer| peer.key).collect();
        let mut editor = self.edit();
        let gone: Vec<PublicKey> = editor.configured.difference(&wanted).copied().collect();
        self.take_out(&mut editor, &gone)?;
        let changed = self.put_all(&mut editor, &config.peers);
        self.publish(&mut editor)?;
        changed?;
        editor.configured = wanted;
        Ok(())
    }

    /// Adds a peer, or changes it as the words say that were given.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn set_peer(&self, config: &PeerConfig) -> Result<(), Error> {
        let mut editor = self.edit();
        let changed = self.put_all(&mut editor, std::slice::from_ref(config));
        self.publish(&mut editor)?;
        changed
    }

    /// Takes a peer away.
    ///
    /// # Errors
    /// There is no such peer, or workers stand still.
    pub fn remove_peer(&self, key: &PublicKey) -> Result<(), Error> {
        let mut editor = self.edit();
        if editor.table.find(key).is_none() {
            return Err(Error::Unknown(*key));
        }
        self.take_out(&mut editor, &[*key])?;
        editor.configured.remove(key);
        self.publish(&mut editor)
    }

    /// Publishes peers, and then endpoints.
    fn publish(&self, editor: &mut Editor) -> Result<(), Error> {
        self.table.publish(editor.table.clone()).map_err(|_| Error::Busy)?;
        self.place_some(editor, &self.domain.register("the configuration of WireGuard"));
        Ok(())
    }

    /// Publishes endpoints of the configuration, some of many. The others wait for ticks, and so does one that is refused because workers stand still.
    fn place_some(&self, editor: &mut Editor, reader: &Reader) {
        for _ in 0..PLACES_AT_ONCE {
            let Some((key, remote)) = editor.later.first_key_value() else { break };
            if editor.table.find(key).is_some_and(|peer| !peer.place_at(reader, *remote)) {
                break;
            }
            editor.later.pop_first();
        }
        self.has_later.store(!editor.later.is_empty(), Ordering::Relaxed);
    }

    /// Whether endpoints of the configuration are still to be published.
    pub(crate) fn has_later(&self) -> bool {
        self.has_later.load(Ordering::Relaxed)
    }

    /// Publishes some of them, unless somebody changes peers right now.
    pub(crate) fn catch_up(&self, reader: &Reader) {
        if self.has_later()
            && let Ok(mut editor) = self.editor.try_lock()
        {
            self.place_some(&mut editor, reader);
        }
    }

    /// Takes out those of these peers that there are.
    fn take_out(&self, editor: &mut Editor, keys: &[PublicKey]) -> Result<(), Error> {
        let numbers = keys.iter().filter_map(|key| editor.table.find(key)).map(|peer| peer.number);
        let gone: Vec<(Prefix, Option<u32>)> =
            numbers.flat_map(|number| editor.writer.of(number)).map(|prefix| (prefix, None)).collect();
        editor.writer.change(&gone)?;
        for peer in keys.iter().filter_map(|key| editor.table.remove(key)) {
            editor.free.insert(peer.number);
            let mut state = peer.state();
            peer.leave();
            self.waiting.give_up(peer.number, Lost::Removed);
            peer.erase(&mut state, None, 0);
        }
        Ok(())
    }

    fn put_all(&self, editor: &mut Editor, peers: &[PeerConfig]) -> Result<(), Error> {
        let mut changes = Changes::default();
        let result = peers.iter().try_for_each(|config| self.put(editor, config, &mut changes));
        // A network that changes its owner is taken from the old one before the new one has it.
        let Changes { mut gone, given } = changes;
        gone.extend(given);
        editor.writer.change(&gone)?;
        result
    }

    fn put(&self, editor: &mut Editor, config: &PeerConfig, changes: &mut Changes) -> Result<(), Error> {
        if config.key == self.public {
            return Err(Error::OwnKey);
        }
        let peer = match editor.table.find(&config.key).cloned() {
            Some(peer) => {
                if let Some(remote) = config.endpoint {
                    editor.later.insert(config.key, remote);
                }
                peer
            }
            None => self.make(editor, config)?,
        };
        {
            let mut state = peer.state();
            if let Some(preshared) = &config.preshared {
                state.preshared = preshared.clone();
            }
            if let Some(keepalive) = config.keepalive {
                state.keepalive = keepalive;
            }
        }
        if config.replaces_allowed {
            changes.gone.extend(editor.writer.of(peer.number).map(|prefix| (prefix, None)));
        }
        changes.given.extend(config.allowed.iter().map(|prefix| (*prefix, Some(peer.number))));
        Ok(())
    }

    fn make(&self, editor: &mut Editor, config: &PeerConfig) -> Result<Arc<Peer>, Error> {
        let number = editor.free.first().copied().unwrap_or(editor.table.len() as u32);
        if number as usize > PEERS_MAX {
            return Err(Error::TooManyPeers);
        }
        let none = Secret::new([0; 32]);
        let peer = Arc::new(Peer::new(&self.domain, number, config.key, none, config.endpoint, self.workers));
        editor.free.remove(&number);
        editor.table.insert(peer.clone());
        Ok(peer)
    }

    /// All peers, in the order of their numbers.
    pub fn show(&self, reader: &Reader) -> Vec<Shown> {
        let editor = self.edit();
        let shown = |peer: &Arc<Peer>| {
            let state = peer.state();
            Shown {
                key: peer.key,
                has_preshared: !state.preshared.is_zero(),
                endpoint: peer.endpoint(reader).map(|endpoint| endpoint.remote),
                allowed: editor.writer.of(peer.number).collect(),
                handshake_wall_ns: state.handshake_wall_ns,
                bytes: peer.bytes(),
                keepalive: state.keepalive,
            }
        };
        editor.table.iter().map(shown).collect()
    }
}
