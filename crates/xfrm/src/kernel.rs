// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the server needs of databases.

use std::fmt;
use std::net::IpAddr;

use ipsec::{AssociationConfig, ErrorKind, Id, Policy, PolicyKey, SpiRange, Usage};

/// Why something was not done: the number that the kernel has for it, and words for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// A number of errno(3).
    pub errno: i32,
    /// What is wrong, and what to do.
    pub why: String,
}

impl Refusal {
    /// One that says this.
    pub fn new(errno: i32, why: impl Into<String>) -> Refusal {
        Refusal { errno, why: why.into() }
    }

    /// The databases cannot be reached: `ENETDOWN`, upon which key daemons give up what they were about.
    pub fn unreachable(why: impl Into<String>) -> Refusal {
        Refusal::new(libc::ENETDOWN, why)
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.why, std::io::Error::from_raw_os_error(self.errno))
    }
}

impl std::error::Error for Refusal {}

/// The kernel's number for an error of databases.
pub(crate) fn errno_of(kind: ErrorKind) -> i32 {
    match kind {
        ErrorKind::Exists => libc::EEXIST,
        ErrorKind::NoAssociation => libc::ESRCH,
        ErrorKind::NoPolicy | ErrorKind::NoSpi => libc::ENOENT,
        ErrorKind::Invalid => libc::EINVAL,
        // charon(8) tries again on its own.
        ErrorKind::Busy => libc::EBUSY,
    }
}

impl From<ipsec::Error> for Refusal {
    fn from(error: ipsec::Error) -> Refusal {
        Refusal::new(errno_of(error.kind()), error.to_string())
    }
}

/// What an association or a policy has met so far. Times are seconds since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Carried {
    /// Packets and bytes.
    pub usage: Usage,
    /// When it was made; 0 if unknown.
    pub made: u64,
    /// When the first packet passed; of a policy, the last one. 0 if none has.
    pub used: u64,
    /// Packets that had come before.
    pub replayed: u64,
    /// Packets that were older than the window.
    pub too_old: u64,
    /// Packets that failed the integrity check.
    pub forged: u64,
}

/// What a database has, with its life so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found<T> {
    /// What it is.
    pub what: T,
    /// What it has met.
    pub carried: Carried,
}

/// Associations or policies, one after the other.
pub type All<T> = Box<dyn Iterator<Item = Found<T>> + Send>;

/// Databases that a key daemon may change. Each method fails with the kernel's number for the reason.
#[allow(clippy::missing_errors_doc, reason = "stands above")]
pub trait Kernel: Send {
    /// Adds an association: `EEXIST` if there is one.
    fn add(&mut self, config: AssociationConfig) -> Result<(), Refusal>;
    /// Adds one whose number was reserved, or gives one its limits and UDP ports and lets all else be: `ESRCH` if there is neither, `EINVAL` if only one of both goes
    /// by UDP.
    fn update(&mut self, config: AssociationConfig) -> Result<(), Refusal>;
    /// Takes an association out, or gives a number back: `ESRCH` if there is none.
    fn remove(&mut self, id: Id) -> Result<(), Refusal>;
    /// An association, with its keys and where it is: `ESRCH` if there is none.
    fn association(&mut self, id: Id) -> Result<Found<AssociationConfig>, Refusal>;
    /// All associations.
    fn associations(&mut self) -> Result<All<AssociationConfig>, Refusal>;
    /// How many associations there are.
    fn count(&mut self) -> Result<usize, Refusal>;
    /// Takes all associations out.
    fn flush(&mut self) -> Result<(), Refusal>;
    /// Promises a number: `ENOENT` if none is free.
    fn reserve(&mut self, dst: IpAddr, range: SpiRange) -> Result<u32, Refusal>;
    /// Adds a policy, or with `replaces` puts it in the place of one: else `EEXIST` if there is one.
    fn set_policy(&mut self, policy: Policy, replaces: bool) -> Result<(), Refusal>;
    /// Takes a policy out: `ENOENT` if there is none.
    fn remove_policy(&mut self, key: &PolicyKey) -> Result<(), Refusal>;
    /// A policy: `ENOENT` if there is none.
    fn policy(&mut self, key: &PolicyKey) -> Result<Found<Policy>, Refusal>;
    /// All policies.
    fn policies(&mut self) -> Result<All<Policy>, Refusal>;
    /// Takes all policies out.
    fn flush_policies(&mut self) -> Result<(), Refusal>;
}
