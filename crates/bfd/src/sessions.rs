// SPDX-License-Identifier: MIT OR Apache-2.0
//! All sessions of a router: finds the one that a packet is for, and the one that is due first.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

use crate::discard::check_named;
use crate::due::Due;
use crate::echo::sender;
use crate::{Change, Config, ConfigError, Discard, Session, Step, read};

/// Most sessions in a table.
pub const SESSIONS_MAX: usize = 4096;

/// The neighbour of a session: what its first packets are known by, which cannot name our discriminator yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SessionKey {
    /// The neighbour's address.
    pub address: IpAddr,
    /// Where its packets come.
    pub place: SessionPlace,
}

/// Where packets of a session come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SessionPlace {
    /// Over one hop, by the interface of this number.
    Interface(u32),
    /// Over several hops, to an own address in a routing table (RFC 5883 section 3).
    Several {
        /// The own address.
        local: IpAddr,
        /// The number of the table.
        table: u32,
    },
}

impl SessionPlace {
    /// Whether a packet that came here may name a session of `place` by its discriminator: both over one hop, or in the same table.
    fn admits(self, place: SessionPlace) -> bool {
        match (self, place) {
            (SessionPlace::Interface(_), SessionPlace::Interface(_)) => true,
            (SessionPlace::Several { table: here, .. }, SessionPlace::Several { table, .. }) => here == table,
            _ => false,
        }
    }
}

impl std::fmt::Display for SessionKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.place {
            SessionPlace::Interface(number) => write!(f, "{} on interface {number}", self.address),
            SessionPlace::Several { local, table } => {
                write!(f, "{} from {local} in table {table}", self.address)
            }
        }
    }
}

/// Why a session was not added.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AddError {
    /// A setting is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The table is full.
    #[error("BFD: the table holds {SESSIONS_MAX} sessions already: remove one first")]
    Full,
    /// The neighbour has a session.
    #[error("BFD: {key} has a session already: change that one")]
    Neighbor {
        /// The neighbour.
        key: SessionKey,
    },
    /// Another session has the discriminator.
    #[error("BFD: another session has discriminator {discriminator}: choose another")]
    Discriminator {
        /// The discriminator.
        discriminator: u32,
    },
}

/// Up to [`SESSIONS_MAX`] sessions. Only [`add`](Self::add) allocates.
#[derive(Debug)]
pub struct Sessions {
    slots: Vec<Option<(SessionKey, Session)>>,
    free: Vec<usize>,
    by_discriminator: HashMap<u32, usize>,
    by_key: HashMap<SessionKey, usize>,
    due: Due,
}

impl Default for Sessions {
    fn default() -> Self {
        Sessions {
            slots: Vec::new(),
            free: Vec::new(),
            by_discriminator: HashMap::new(),
            by_key: HashMap::new(),
            due: Due::new(SESSIONS_MAX),
        }
    }
}

impl Sessions {
    /// No session.
    pub fn new() -> Self {
        Sessions::default()
    }

    /// How many sessions there are.
    pub fn len(&self) -> usize {
        self.by_key.len()
    }

    /// Whether there is no session.
    pub fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }

    /// All sessions.
    pub fn iter(&self) -> impl Iterator<Item = &(SessionKey, Session)> {
        self.slots.iter().flatten()
    }

    /// The session with a neighbour.
    pub fn get(&self, key: SessionKey) -> Option<&Session> {
        let (_, session) = self.slots[*self.by_key.get(&key)?].as_ref()?;
        Some(session)
    }

    /// A discriminator that no session has: `random`, or the next one that is free.
    pub fn free_discriminator(&self, random: u32) -> u32 {
        let mut candidates = (0..).map(|step| random.wrapping_add(step));
        // At most SESSIONS_MAX are taken, and zero.
        candidates.find(|d| *d != 0 && !self.by_discriminator.contains_key(d)).unwrap_or(random)
    }

    /// Adds a session with a neighbour.
    ///
    /// # Errors
    /// A setting is wrong, the table is full, or the neighbour or the discriminator has a session.
    pub fn add(&mut self, key: SessionKey, config: Config) -> Result<(), AddError> {
        self.adopt(key, Session::new(config)?)
    }

    /// Takes over a session that [`remove`](Self::remove) returned.
    ///
    /// # Errors
    /// As for [`add`](Self::add).
    pub fn adopt(&mut self, key: SessionKey, session: Session) -> Result<(), AddError> {
        let discriminator = session.config().discriminator;
        if self.by_key.contains_key(&key) {
            return Err(AddError::Neighbor { key });
        }
        if self.by_discriminator.contains_key(&discriminator) {
            return Err(AddError::Discriminator { discriminator });
        }
        if self.len() == SESSIONS_MAX {
            return Err(AddError::Full);
        }
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        self.by_key.insert(key, slot);
        self.by_discriminator.insert(discriminator, slot);
        self.due.set(slot, session.next_due());
        self.slots[slot] = Some((key, session));
        Ok(())
    }

    /// Removes the session with a neighbour.
    pub fn remove(&mut self, key: SessionKey) -> Option<Session> {
        let slot = self.by_key.remove(&key)?;
        let (_, session) = self.slots[slot].take()?;
        self.by_discriminator.remove(&session.config().discriminator);
        self.due.set(slot, Duration::MAX);
        self.free.push(slot);
        Some(session)
    }

    /// Lets `change` change the session with a neighbour: its intervals, or whether it is held down. `None` where there is none.
    pub fn update<R>(&mut self, key: SessionKey, change: impl FnOnce(&mut Session) -> R) -> Option<R> {
        let slot = *self.by_key.get(&key)?;
        self.with_slot(slot, |_, session| change(session))
    }

    /// Takes the payload of a UDP packet from `from`. Returns the session's neighbour, and its change of state.
    ///
    /// # Errors
    /// Why the packet was discarded.
    pub fn receive(
        &mut self,
        payload: &[u8],
        from: SessionKey,
        ttl: u8,
        now: Duration,
    ) -> Result<(SessionKey, Option<Change>), Discard> {
        let packet = read(payload)?;
        check_named(&packet)?;
        let (slot, unknown) = match packet.your_discriminator {
            0 => (self.by_key.get(&from), Discard::UnknownNeighbor),
            named => (self.by_discriminator.get(&named), Discard::UnknownDiscriminator),
        };
        let slot = *slot.ok_or(unknown)?;
        let received = self.with_slot(slot, |key, session| {
            from.place.admits(key.place).then(|| (key, session.receive_bytes(payload, &packet, ttl, now)))
        });
        let (key, change) = received.flatten().ok_or(unknown)?;
        Ok((key, change?))
    }

    /// Takes the payload of an echo packet that came by an interface. Returns the session that has sent it there, if the packet counts.
    pub fn receive_echo(&mut self, payload: &[u8], interface: u32, now: Duration) -> Option<SessionKey> {
        let slot = *self.by_discriminator.get(&sender(payload)?)?;
        self.with_slot(slot, |key, session| {
            (key.place == SessionPlace::Interface(interface) && session.receive_echo(payload, now))
                .then_some(key)
        })?
    }

    /// When [`poll`](Self::poll) has something to do; `Duration::MAX` for never, zero for at once.
    pub fn next_due(&self) -> Duration {
        self.due.earliest()
    }

    /// Polls the session that is due first. Call it until it returns `None`: nothing is due then.
    pub fn poll(&mut self, now: Duration, jitter: u32) -> Option<(SessionKey, Step)> {
        if self.due.earliest() > now {
            return None;
        }
        self.with_slot(self.due.first(), |key, session| (key, session.poll(now, jitter)))
    }

    fn with_slot<R>(&mut self, slot: usize, act: impl FnOnce(SessionKey, &mut Session) -> R) -> Option<R> {
        let (key, session) = self.slots.get_mut(slot)?.as_mut()?;
        let result = act(*key, session);
        self.due.set(slot, session.next_due());
        Some(result)
    }
}
