// SPDX-License-Identifier: MIT OR Apache-2.0
//! Security associations as a router keeps them (RFC 4301, 4.4.2).

use std::net::IpAddr;
use std::sync::atomic::{AtomicU8, Ordering};

use esp::Sa;
use esp::replay::Window;
use esp::sa::SaError;

use crate::lifetime::{Limits, Lines, Reached};
use crate::policy::Kind;
use crate::selector::Selector;

/// What tells an association from others: the receiver's address and the number that packets carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Id {
    /// The receiver.
    pub dst: IpAddr,
    /// The number.
    pub spi: u32,
}

/// Where an association goes on that had a life before, as after a restart or a move to other addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// The number of the last packet that was sent.
    pub sent: u64,
    /// The highest number that was received.
    pub top: u64,
    /// Which packets below it were, as [`Window::bitmap`] has it.
    pub bitmap: Vec<u32>,
}

/// All that an association is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AssociationConfig {
    /// The sender.
    pub src: IpAddr,
    /// The receiver.
    pub dst: IpAddr,
    /// What ESP needs.
    pub esp: esp::Config,
    /// The number that binds it to policies; 0 for none.
    pub reqid: u32,
    /// The only packets that it may carry.
    pub selector: Option<Selector>,
    /// What ends it.
    pub limits: Limits,
    /// Where it goes on.
    pub progress: Progress,
}

impl AssociationConfig {
    /// What tells it from others.
    pub fn id(&self) -> Id {
        Id { dst: self.dst, spi: self.esp.spi }
    }
}

/// An association in use. All workers may use it at once.
#[derive(Debug)]
pub struct Association {
    /// What protects and opens packets.
    pub sa: Sa,
    /// What it was made of. `progress` is out of date.
    pub config: AssociationConfig,
    /// What it has carried.
    pub lines: Lines,
    /// When it was made, in nanoseconds.
    pub made_ns: u64,
    /// Tells it from an earlier one of the same identity, and the newer from the older.
    pub generation: u64,
    /// The limit that it has reached: 0 none, 1 soft, 2 hard.
    reached: AtomicU8,
}

impl Association {
    /// One that begins now.
    ///
    /// # Errors
    /// What is wrong about it.
    pub(crate) fn new(
        config: AssociationConfig,
        workers: usize,
        now_ns: u64,
        generation: u64,
    ) -> Result<Association, SaError> {
        let mut sa = Sa::new(&config.esp)?;
        let Progress { sent, top, bitmap } = &config.progress;
        sa.set_sent(*sent);
        if *top > 0 {
            sa.window = Window::restored(config.esp.window, config.esp.is_extended, *top, bitmap);
        }
        let (lines, reached) = (Lines::new(workers), AtomicU8::new(0));
        Ok(Association { sa, config, lines, made_ns: now_ns, generation, reached })
    }

    /// What tells it from others.
    pub fn id(&self) -> Id {
        self.config.id()
    }

    /// What it carries, as policies have it.
    pub fn kind(&self) -> Kind {
        match self.sa.mode {
            esp::Mode::Tunnel { from, to } => Kind::Tunnel { from, to },
            esp::Mode::Transport => Kind::Transport,
        }
    }

    /// Where it is.
    pub fn progress(&self) -> Progress {
        let window = &self.sa.window;
        Progress { sent: self.sa.sent(), top: window.top(), bitmap: window.bitmap() }
    }

    /// The limit that it has reached.
    #[inline]
    pub fn reached(&self) -> Option<Reached> {
        match self.reached.load(Ordering::Relaxed) {
            0 => None,
            1 => Some(Reached::Soft),
            _ => Some(Reached::Hard),
        }
    }

    /// Whether it is over.
    #[inline]
    pub fn is_over(&self) -> bool {
        self.reached() == Some(Reached::Hard)
    }

    /// Notes a limit. Returns whether that is news.
    pub(crate) fn note(&self, reached: Reached) -> bool {
        let code = 1 + reached as u8;
        self.reached.fetch_max(code, Ordering::Relaxed) < code
    }
}
