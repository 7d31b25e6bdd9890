// SPDX-License-Identifier: MIT OR Apache-2.0
//! Batches and what stands in them.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

use wire::addr::{Prefix4, Prefix6};

use crate::audit::Question;
use crate::bytes::Cursor;
use crate::{Error, Group, Object, Tree, VERSION};

/// The most bytes of the name of a link or a VRF, as of an interface of Linux.
pub const NAME_BYTES_MAX: usize = 15;

/// What a batch begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The batch's number, one more than that of the one before.
    pub sequence: u64,
}

impl Header {
    /// Begins a batch.
    pub fn encode(self, out: &mut Vec<u8>) {
        out.extend(VERSION.to_le_bytes());
        out.extend(self.sequence.to_le_bytes());
    }
}

/// A destination: addresses of either family, or an MPLS label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Destination {
    /// IPv4.
    V4(Prefix4),
    /// IPv6.
    V6(Prefix6),
    /// Packets that come with this MPLS label, below 2^20.
    Label(u32),
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Destination::V4(prefix) => prefix.fmt(f),
            Destination::V6(prefix) => prefix.fmt(f),
            Destination::Label(label) => write!(f, "label {label}"),
        }
    }
}

/// One change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Update<'a> {
    /// A control plane introduces itself.
    Hello {
        /// A number that no other run of a control plane has.
        feed: u64,
    },
    /// All that is valid follows, until `End`.
    Begin,
    /// What was not named since `Begin` is to go.
    End,
    /// A link, or its new state.
    Link {
        /// Its number.
        link: u16,
        /// Whether it carries packets.
        up: bool,
        /// The interface's name in the control plane.
        name: &'a str,
    },
    /// The routing table of a VRF. It comes after `Begin`, before anything that names it.
    Table {
        /// The number that routes name it by, not 0.
        number: u8,
        /// The VRF's name.
        name: &'a str,
    },
    /// An object, or what it stands for from now on.
    Object {
        /// Its number.
        id: u32,
        /// What it stands for.
        object: Object,
    },
    /// No route names this object any more.
    DropObject {
        /// Its number.
        id: u32,
    },
    /// A route, new or changed.
    Route {
        /// The number of the routing table, see [`Update::Table`].
        table: u8,
        /// The destination.
        prefix: Destination,
        /// The object that it leads to.
        id: u32,
    },
    /// A route goes.
    Withdraw {
        /// As of the route.
        table: u8,
        /// As of the route.
        prefix: Destination,
    },
    /// How packets of a group are distributed, new or changed.
    Tree {
        /// As of a route.
        table: u8,
        /// Which packets.
        group: Group,
        /// By which links they come and leave.
        tree: Tree,
    },
    /// Packets of a group have no tree any more.
    DropTree {
        /// As of the tree.
        table: u8,
        /// As of the tree.
        group: Group,
    },
    /// Whether a daemon looks at the kernel's counters of a family's groups: the kernel is to see a packet of each now and then. Not
    /// until this is said.
    Watch {
        /// Whether it is IPv6.
        is_six: bool,
        /// Whether there is such a daemon.
        is_watched: bool,
    },
    /// What do the tables hold? The only update of its batch, answered with [`Reply::Audited`](crate::Reply::Audited).
    Audit(Question),
}

const HELLO: u8 = 1;
const BEGIN: u8 = 2;
const END: u8 = 3;
const LINK: u8 = 4;
const OBJECT: u8 = 5;
const DROP_OBJECT: u8 = 6;
const ROUTE4: u8 = 7;
const ROUTE6: u8 = 8;
const WITHDRAW4: u8 = 9;
const WITHDRAW6: u8 = 10;
const ROUTE_LABEL: u8 = 11;
const WITHDRAW_LABEL: u8 = 12;
const TABLE: u8 = 13;
const TREE4: u8 = 14;
const TREE6: u8 = 15;
const DROP_TREE4: u8 = 16;
const DROP_TREE6: u8 = 17;
const WATCH: u8 = 18;
const AUDIT: u8 = 32;

impl Update<'_> {
    /// Appends it to a batch.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Update::Hello { feed } => {
                out.push(HELLO);
                out.extend(feed.to_le_bytes());
            }
            Update::Begin => out.push(BEGIN),
            Update::End => out.push(END),
            Update::Link { link, up, name } => {
                out.push(LINK);
                out.extend(link.to_le_bytes());
                out.push(u8::from(*up));
                encode_name(name, out);
            }
            Update::Table { number, name } => {
                out.extend([TABLE, *number]);
                encode_name(name, out);
            }
            Update::Object { id, object } => {
                out.push(OBJECT);
                out.extend(id.to_le_bytes());
                object.encode(out);
            }
            Update::DropObject { id } => {
                out.push(DROP_OBJECT);
                out.extend(id.to_le_bytes());
            }
            Update::Route { table, prefix, id } => {
                encode_prefix_of([ROUTE4, ROUTE6, ROUTE_LABEL], *table, *prefix, out);
                out.extend(id.to_le_bytes());
            }
            Update::Withdraw { table, prefix } => {
                encode_prefix_of([WITHDRAW4, WITHDRAW6, WITHDRAW_LABEL], *table, *prefix, out);
            }
            Update::Tree { table, group, tree } => {
                out.extend([if group.is_six() { TREE6 } else { TREE4 }, *table]);
                group.encode(out);
                tree.encode(out);
            }
            Update::DropTree { table, group } => {
                out.extend([if group.is_six() { DROP_TREE6 } else { DROP_TREE4 }, *table]);
                group.encode(out);
            }
            Update::Watch { is_six, is_watched } => {
                out.extend([WATCH, u8::from(*is_six), u8::from(*is_watched)]);
            }
            Update::Audit(question) => {
                out.push(AUDIT);
                question.encode(out);
            }
        }
    }
}

/// The length of a name, and as much of it as may be.
fn encode_name(name: &str, out: &mut Vec<u8>) {
    let mut end = name.len().min(NAME_BYTES_MAX);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    out.push(end as u8);
    out.extend(&name.as_bytes()[..end]);
}

/// A kind of its family, the table and the prefix.
pub(crate) fn encode_prefix_of(
    [four, six, label]: [u8; 3],
    table: u8,
    prefix: Destination,
    out: &mut Vec<u8>,
) {
    match prefix {
        Destination::V4(prefix) => {
            out.extend([four, table, prefix.len()]);
            out.extend(prefix.addr().octets());
        }
        Destination::V6(prefix) => {
            out.extend([six, table, prefix.len()]);
            out.extend(prefix.addr().octets());
        }
        Destination::Label(number) => {
            out.extend([label, table]);
            out.extend(number.to_le_bytes());
        }
    }
}

/// The updates of a batch, one after the other. After an error there are no more.
#[derive(Clone, Debug)]
pub struct Updates<'a> {
    from: Cursor<'a>,
    is_over: bool,
}

impl<'a> Updates<'a> {
    /// Begins to read a batch.
    ///
    /// # Errors
    /// The header is not one of this version.
    pub fn new(batch: &'a [u8]) -> Result<(Header, Updates<'a>), Error> {
        let mut from = Cursor::new(batch);
        let theirs = from.u16()?;
        if theirs != VERSION {
            return Err(Error::Version { theirs });
        }
        let sequence = from.u64()?;
        Ok((Header { sequence }, Updates { from, is_over: false }))
    }

    fn update(&mut self) -> Result<Update<'a>, Error> {
        let from = &mut self.from;
        Ok(match from.u8()? {
            HELLO => Update::Hello { feed: from.u64()? },
            BEGIN => Update::Begin,
            END => Update::End,
            LINK => {
                let (link, up) = (from.u16()?, from.u8()? != 0);
                Update::Link { link, up, name: name(from)? }
            }
            TABLE => match from.u8()? {
                0 => return Err(from.malformed("table 0 is that of no VRF")),
                number => Update::Table { number, name: name(from)? },
            },
            OBJECT => Update::Object { id: from.u32()?, object: Object::decode(from)? },
            DROP_OBJECT => Update::DropObject { id: from.u32()? },
            kind @ (ROUTE4 | ROUTE6) => {
                let (table, prefix) = prefix_of(from, kind == ROUTE4)?;
                Update::Route { table, prefix, id: from.u32()? }
            }
            ROUTE_LABEL => {
                let (table, prefix) = label(from)?;
                Update::Route { table, prefix, id: from.u32()? }
            }
            WITHDRAW_LABEL => {
                let (table, prefix) = label(from)?;
                Update::Withdraw { table, prefix }
            }
            kind @ (WITHDRAW4 | WITHDRAW6) => {
                let (table, prefix) = prefix_of(from, kind == WITHDRAW4)?;
                Update::Withdraw { table, prefix }
            }
            kind @ (TREE4 | TREE6) => {
                let (table, group) = (from.u8()?, Group::decode(from, kind == TREE4)?);
                Update::Tree { table, group, tree: Tree::decode(from)? }
            }
            kind @ (DROP_TREE4 | DROP_TREE6) => {
                Update::DropTree { table: from.u8()?, group: Group::decode(from, kind == DROP_TREE4)? }
            }
            WATCH => Update::Watch { is_six: from.u8()? != 0, is_watched: from.u8()? != 0 },
            AUDIT => Update::Audit(Question::decode(from)?),
            _ => return Err(from.malformed("an unknown kind of update")),
        })
    }
}

fn name<'a>(from: &mut Cursor<'a>) -> Result<&'a str, Error> {
    let count = usize::from(from.u8()?);
    if count == 0 || count > NAME_BYTES_MAX {
        return Err(from.malformed("a name has 1 to 15 bytes"));
    }
    let name = std::str::from_utf8(from.take(count)?);
    name.map_err(|_| from.malformed("a name is not UTF-8"))
}

fn label(from: &mut Cursor<'_>) -> Result<(u8, Destination), Error> {
    let (table, label) = (from.u8()?, from.u32()?);
    if label >= 1 << 20 {
        return Err(from.malformed("a label of more than 20 bits"));
    }
    Ok((table, Destination::Label(label)))
}

pub(crate) fn prefix_of(from: &mut Cursor<'_>, is_four: bool) -> Result<(u8, Destination), Error> {
    let (table, len) = (from.u8()?, from.u8()?);
    let prefix = if is_four {
        let addr = Ipv4Addr::from(from.array::<4>()?);
        Prefix4::new(addr, len).filter(|prefix| prefix.addr() == addr).map(Destination::V4)
    } else {
        let addr = Ipv6Addr::from(from.array::<16>()?);
        Prefix6::new(addr, len).filter(|prefix| prefix.addr() == addr).map(Destination::V6)
    };
    let prefix =
        prefix.ok_or_else(|| from.malformed("a prefix of an impossible length, or with host bits"))?;
    Ok((table, prefix))
}

impl<'a> Iterator for Updates<'a> {
    type Item = Result<Update<'a>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_over || self.from.is_at_end() {
            return None;
        }
        let update = self.update();
        self.is_over = update.is_err();
        Some(update)
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use proptest::prelude::*;

    use super::*;
    use crate::audit::Part;
    use crate::{Branch, Hop, Labels};

    fn hop() -> impl Strategy<Value = Hop> {
        let labels = proptest::collection::vec(0..1u32 << 20, 0..=crate::LABELS_MAX);
        (any::<Option<IpAddr>>(), any::<u16>(), 1..=u16::MAX, any::<bool>(), labels, any::<Option<bool>>())
            .prop_map(|(gateway, link, weight, backup, labels, propagates_ttl)| {
                let labels = Labels::new(&labels).expect("few and small");
                Hop { gateway, link, weight, backup, labels, propagates_ttl }
            })
    }

    fn object() -> impl Strategy<Value = Object> {
        prop_oneof![
            proptest::collection::vec(hop(), 1..20).prop_map(Object::Forward),
            Just(Object::Local),
            Just(Object::Blackhole),
            Just(Object::Unreachable),
            Just(Object::Prohibit),
            any::<u8>().prop_map(Object::Table),
        ]
    }

    fn prefix() -> impl Strategy<Value = Destination> {
        let four = (any::<Ipv4Addr>(), 0..=32u8)
            .prop_map(|(a, l)| Destination::V4(Prefix4::new(a, l).expect("a length")));
        let six = (any::<Ipv6Addr>(), 0..=128u8)
            .prop_map(|(a, l)| Destination::V6(Prefix6::new(a, l).expect("a length")));
        prop_oneof![four, six, (0..1u32 << 20).prop_map(Destination::Label)]
    }

    fn group() -> impl Strategy<Value = Group> {
        let four = (any::<Ipv4Addr>(), 0xe000_0000..0xf000_0000u32)
            .prop_map(|(source, group)| (IpAddr::V4(source), IpAddr::V4(Ipv4Addr::from_bits(group))));
        let six = (any::<Ipv6Addr>(), 0xff00..=0xffffu128, any::<u64>()).prop_map(|(source, high, low)| {
            (IpAddr::V6(source), IpAddr::V6(Ipv6Addr::from_bits(high << 112 | u128::from(low))))
        });
        prop_oneof![four, six].prop_map(|(source, address)| {
            Group::new(Some(source).filter(|source| !source.is_multicast()), address).expect("one family")
        })
    }

    fn tree() -> impl Strategy<Value = Tree> {
        let branch = (any::<u16>(), any::<u8>(), any::<bool>());
        let branch = branch.prop_map(|(link, ttl, is_kept)| Branch { link, ttl, is_kept });
        (any::<Option<u16>>(), proptest::collection::vec(branch, 0..=crate::BRANCHES_MAX))
            .prop_map(|(input, branches)| Tree { input, branches })
    }

    fn update() -> impl Strategy<Value = Update<'static>> {
        prop_oneof![
            (any::<u8>(), group(), tree()).prop_map(|(table, group, tree)| Update::Tree {
                table,
                group,
                tree
            }),
            (any::<u8>(), group()).prop_map(|(table, group)| Update::DropTree { table, group }),
            any::<[bool; 2]>().prop_map(|[is_six, is_watched]| Update::Watch { is_six, is_watched }),
            any::<u64>().prop_map(|feed| Update::Hello { feed }),
            Just(Update::Begin),
            Just(Update::End),
            (any::<u16>(), any::<bool>()).prop_map(|(link, up)| Update::Link { link, up, name: "eth0" }),
            (1..=u8::MAX).prop_map(|number| Update::Table { number, name: "red" }),
            (any::<u32>(), object()).prop_map(|(id, object)| Update::Object { id, object }),
            any::<u32>().prop_map(|id| Update::DropObject { id }),
            (any::<u8>(), prefix(), any::<u32>()).prop_map(|(table, prefix, id)| Update::Route {
                table,
                prefix,
                id
            }),
            (any::<u8>(), prefix()).prop_map(|(table, prefix)| Update::Withdraw { table, prefix }),
            (any::<u32>(), any::<u64>(), any::<u64>(), any::<bool>()).prop_map(|(token, from, to, lists)| {
                Update::Audit(Question { token, part: Part::Six, from, to, lists })
            }),
        ]
    }

    proptest! {
        #[test]
        fn a_batch_is_read_as_it_was_written(updates in proptest::collection::vec(update(), 0..20), sequence: u64) {
            let mut batch = Vec::new();
            Header { sequence }.encode(&mut batch);
            updates.iter().for_each(|update| update.encode(&mut batch));
            let (header, read) = Updates::new(&batch).expect("our version");
            prop_assert_eq!(header.sequence, sequence);
            prop_assert_eq!(read.collect::<Result<Vec<_>, _>>().expect("whole"), updates);
        }

        #[test]
        fn any_bytes_end_in_an_error_or_are_read(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut batch = VERSION.to_le_bytes().to_vec();
            batch.extend(bytes);
            if let Ok((_, updates)) = Updates::new(&batch) {
                let _ = updates.count();
            }
        }
    }

    #[test]
    fn a_cut_batch_names_the_place() {
        let mut batch = Vec::new();
        Header { sequence: 1 }.encode(&mut batch);
        Update::DropObject { id: 7 }.encode(&mut batch);
        batch.pop();
        let (_, mut updates) = Updates::new(&batch).expect("our version");
        assert_eq!(updates.next(), Some(Err(Error::Short { at: 14 })));
        assert_eq!(updates.next(), None);
        assert_eq!(Updates::new(&[9, 0]).err(), Some(Error::Version { theirs: 9 }));
    }
}
