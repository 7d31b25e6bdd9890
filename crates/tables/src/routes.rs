// SPDX-License-Identifier: MIT OR Apache-2.0
//! Route files: what other programs know about routes, read and written.
//!
//! Three forms are read, recognised by their first bytes ([`Form`]):
//!
//! * our own text: `PREFIX/LEN ID` lines, then updates (`A PREFIX/LEN ID`, `W PREFIX/LEN`); next hops are numbers,
//!   unless `nexthop ID via ADDRESS dev NAME` lines say what they are ([`text`]);
//! * what `ip route show` and `ip -6 route show` print ([`ip_route`]);
//! * MRT table dumps of route collectors and BGP daemons, RFC 6396 with RFC 8050 ([`mrt`]).
//!
//! Everything streams: a table dump of some gigabytes is read record by record. A file that has an error adds nothing to the [`Routes`] it was read
//! into, and the error says in which line or at which byte, what, and how to fix it.
//!
//! No files are opened here: routes are read from any [`BufRead`] (a file, a decompressor, standard input).

pub mod ip_route;
pub mod mrt;
pub mod text;

use crate::fib4::NextHopId;
use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    io::{self, BufRead},
    net::IpAddr,
};
use wire::{Prefix, Prefix4, Prefix6, PrefixError};

/// One way to a next hop.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Leg {
    /// The router to hand packets to; none where the destination itself is on the link.
    pub gateway: Option<IpAddr>,
    /// The interface.
    pub device: Option<String>,
    /// Share of the flows, compared with the other legs' weights.
    pub weight: u32,
}

impl fmt::Display for Leg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut gap = "";
        if let Some(gateway) = self.gateway {
            write!(f, "via {gateway}")?;
            gap = " ";
        }
        if let Some(device) = &self.device {
            write!(f, "{gap}dev {device}")?;
        }
        Ok(())
    }
}

/// What becomes of packets that match a route, as the file says it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Hop {
    /// A number of which the file says no more.
    Id(u32),
    /// They go on by one of these.
    Legs(Vec<Leg>),
    /// A type of route that has no next hop.
    Special(Special),
}

/// Route types without a next hop, by the names that `ip route` gives them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs)]
pub enum Special {
    Blackhole,
    Unreachable,
    Prohibit,
    Throw,
    Local,
    Broadcast,
    Multicast,
    Anycast,
}

impl Special {
    const ALL: [(Self, &'static str); 8] = [
        (Self::Blackhole, "blackhole"),
        (Self::Unreachable, "unreachable"),
        (Self::Prohibit, "prohibit"),
        (Self::Throw, "throw"),
        (Self::Local, "local"),
        (Self::Broadcast, "broadcast"),
        (Self::Multicast, "multicast"),
        (Self::Anycast, "anycast"),
    ];

    /// The type of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, known)| *known == name).map(|(kind, _)| *kind)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(kind, _)| *kind == self).map_or("", |(_, name)| name)
    }
}

impl fmt::Display for Hop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Id(id) => id.fmt(f),
            Self::Special(kind) => f.write_str(kind.name()),
            Self::Legs(legs) => match &legs[..] {
                [leg] => leg.fmt(f),
                legs => {
                    for (at, leg) in legs.iter().enumerate() {
                        let gap = if at == 0 { "" } else { " " };
                        write!(f, "{gap}nexthop {leg} weight {}", leg.weight)?;
                    }
                    Ok(())
                }
            },
        }
    }
}

/// Next hops, each once; a route names its own by its place here, which is also its id in a forwarding table.
#[derive(Clone, Debug, Default)]
pub struct Hops {
    list: Vec<Hop>,
    index: HashMap<Hop, u32>,
}

impl Hops {
    /// The place of `hop`, added if it is new.
    ///
    /// # Errors
    /// [`Problem::TooManyHops`] beyond what a forwarding table can name.
    pub fn intern(&mut self, hop: Hop) -> Result<NextHopId, Problem> {
        if let Some(at) = self.index.get(&hop) {
            return Ok(NextHopId(*at));
        }
        let at = self.list.len() as u32;
        if at > NextHopId::MAX.0 {
            return Err(Problem::TooManyHops);
        }
        self.index.insert(hop.clone(), at);
        self.list.push(hop);
        Ok(NextHopId(at))
    }

    /// The next hop with this id.
    pub fn get(&self, id: NextHopId) -> Option<&Hop> {
        self.list.get(id.0 as usize)
    }

    /// All of them, in the order of their ids.
    pub fn iter(&self) -> impl Iterator<Item = (NextHopId, &Hop)> {
        self.list.iter().enumerate().map(|(at, hop)| (NextHopId(at as u32), hop))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    fn truncate(&mut self, len: usize) {
        for hop in self.list.drain(len..) {
            self.index.remove(&hop);
        }
    }
}

/// One change of a table, in the order of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Update {
    /// Which route.
    pub prefix: Prefix,
    /// Its new next hop; none withdraws it.
    pub hop: Option<NextHopId>,
}

/// The routes of one file or several.
#[derive(Clone, Debug, Default)]
pub struct Routes {
    /// IPv4 routes in the order of the files; where a prefix comes in two files, the later one stands.
    pub v4: Vec<(Prefix4, NextHopId)>,
    /// IPv6 routes.
    pub v6: Vec<(Prefix6, NextHopId)>,
    /// Changes to make after that.
    pub updates: Vec<Update>,
    /// What the ids stand for.
    pub hops: Hops,
    /// What was passed over on purpose, by reason.
    pub skipped: BTreeMap<&'static str, u64>,
}

/// The form of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Our own text.
    Text,
    /// The output of `ip route show`.
    IpRoute,
    /// An MRT table dump.
    Mrt,
}

impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Text => "`PREFIX/LEN ID` lines",
            Self::IpRoute => "the output of `ip route show`",
            Self::Mrt => "an MRT dump",
        })
    }
}

/// What to take from a file.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Its form; recognised from its beginning where none is given.
    pub form: Option<Form>,
    /// MRT: whose routes; without it, for each prefix those of the peer with the shortest AS path.
    pub peer: Option<IpAddr>,
    /// `ip route`: the table whose routes to take; without it the main table, which `ip` does not name.
    pub table: Option<String>,
}

impl Options {
    /// Refuses a file of a form in which what is asked for does not exist.
    fn suits(&self, form: Form) -> Result<(), Problem> {
        let (option, of) = if self.peer.is_some() && form != Form::Mrt {
            ("peer", "MRT dumps")
        } else if self.table.is_some() && form != Form::IpRoute {
            ("table", "what `ip route show` prints")
        } else {
            return Ok(());
        };
        Err(Problem::NotInThisForm { option, of, form })
    }
}

/// Where in a file something is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Position {
    /// A line, from 1.
    Line(u64),
    /// A byte of the file as decompressed, from 0.
    Byte(u64),
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line(line) => line.fmt(f),
            Self::Byte(byte) => write!(f, "byte {byte}"),
        }
    }
}

/// Why a file could not be read. Nothing of it was loaded.
#[derive(Debug, thiserror::Error)]
#[error("{file}:{place}: {problem}")]
pub struct RouteFileError {
    /// The file's name, as the caller gave it.
    pub file: String,
    /// Where.
    pub place: Position,
    /// What.
    #[source]
    pub problem: Box<Problem>,
}

/// What can be wrong with a route file.
#[derive(Debug, thiserror::Error)]
pub enum Problem {
    /// The file, or its compression, failed.
    #[error("cannot be read: {0}")]
    Io(#[from] io::Error),
    /// Not text at all.
    #[error(
        "the line is not UTF-8 text; if the file is compressed otherwise than by gzip, bzip2 or xz, decompress it first"
    )]
    NotText,
    /// A line without an end.
    #[error("the line is longer than {} bytes: this is no route file", text::LONGEST_LINE)]
    LongLine,
    /// No prefix where one must be, or a wrong one.
    #[error(transparent)]
    Prefix(#[from] PrefixError),
    /// A line of our text form that is none.
    #[error(
        "`{0}` is no route; lines are `PREFIX/LEN ID`, `A PREFIX/LEN ID`, `W PREFIX/LEN` or `nexthop ID via ADDRESS dev NAME`"
    )]
    NotARoute(String),
    /// A next hop's number that is none.
    #[error("`{0}` is no next hop id; ids are numbers from 0 to {max}", max = u32::MAX)]
    NotAnId(String),
    /// The file says what its next hops are, but not this one.
    #[error(
        "next hop {id} of {prefix} is not known; define it before this line: `nexthop {id} via ADDRESS dev NAME`"
    )]
    UnknownHop {
        /// The id.
        id: u32,
        /// The route.
        prefix: Prefix,
    },
    /// A next hop defined twice.
    #[error("next hop {0} was defined before; remove one of the two lines")]
    HopTwice(u32),
    /// A next hop defined after routes that name undefined ones.
    #[error(
        "next hop {0} is defined after routes whose next hops are not; define all before the first route"
    )]
    LateHop(u32),
    /// A route to nowhere.
    #[error("the route to {0} names neither `via ADDRESS` nor `dev NAME`")]
    NoHop(String),
    /// More next hops than a forwarding table can name.
    #[error("more than {} different next hops; a table cannot name more", NextHopId::MAX.0 + 1)]
    TooManyHops,
    /// A route given twice.
    #[error("{prefix} was given before, in line {first}; remove one of the two")]
    Duplicate {
        /// Which.
        prefix: Prefix,
        /// Where it came first.
        first: u64,
    },
    /// A word in the output of `ip route` that we do not know.
    #[error("`{0}` is not understood here; this reads what `ip route show` prints, without -j or -d")]
    UnknownWord(String),
    /// A word that needs another after it.
    #[error("`{word}` wants {wants} after it, not `{given}`")]
    BadValue {
        /// The word before.
        word: String,
        /// What ought to be there.
        wants: &'static str,
        /// What is there.
        given: String,
    },
    /// A choice among routes that files of this form do not have.
    #[error(
        "`{option}` chooses among the routes of {of}, and this file is read as {form}; leave it out, or say the file's form"
    )]
    NotInThisForm {
        /// The choice.
        option: &'static str,
        /// What has it.
        of: &'static str,
        /// What the file is.
        form: Form,
    },
    /// Something MRT is wrong.
    #[error(transparent)]
    Mrt(#[from] mrt::MrtProblem),
}

impl Routes {
    /// Reads one more file, of which errors speak as `name`.
    ///
    /// # Errors
    /// [`RouteFileError`]; `self` is as before then.
    pub fn read(
        &mut self,
        name: &str,
        input: &mut dyn BufRead,
        options: &Options,
    ) -> Result<(), RouteFileError> {
        let before =
            (self.v4.len(), self.v6.len(), self.updates.len(), self.hops.len(), self.skipped.clone());
        let read = self.read_form(input, options);
        read.map_err(|(place, problem)| {
            self.v4.truncate(before.0);
            self.v6.truncate(before.1);
            self.updates.truncate(before.2);
            self.hops.truncate(before.3);
            self.skipped = before.4;
            RouteFileError { file: name.to_owned(), place, problem: problem.into() }
        })
    }

    fn read_form(&mut self, input: &mut dyn BufRead, options: &Options) -> Result<(), (Position, Problem)> {
        let form = match options.form {
            Some(form) => Some(form),
            None => {
                let begin = input.fill_buf().map_err(|error| (Position::Byte(0), error.into()))?;
                // A record begins with 12 bytes of which some are zero always; text has none.
                begin.iter().take(12).any(|byte| *byte == 0).then_some(Form::Mrt)
            }
        };
        match form {
            Some(form @ Form::Mrt) => {
                options.suits(form).map_err(|problem| (Position::Byte(0), problem))?;
                mrt::read(self, input, options)
            }
            lines => text::read_lines(self, input, options, lines),
        }
    }

    /// Number of routes before the updates.
    pub fn len(&self) -> usize {
        self.v4.len() + self.v6.len()
    }

    /// Whether there is neither route nor update.
    pub fn is_empty(&self) -> bool {
        self.len() == 0 && self.updates.is_empty()
    }

    pub(crate) fn push(&mut self, prefix: Prefix, hop: NextHopId) {
        match prefix {
            Prefix::V4(prefix) => self.v4.push((prefix, hop)),
            Prefix::V6(prefix) => self.v6.push((prefix, hop)),
        }
    }

    pub(crate) fn skip(&mut self, why: &'static str) {
        *self.skipped.entry(why).or_default() += 1;
    }
}

#[cfg(test)]
mod tests;
