// SPDX-License-Identifier: MIT OR Apache-2.0
//! What feeds report, in one form for all.
//!
//! A feed reports [`Change`]s in order. A full report (a netlink dump, the replay of a daemon) stands between [`Change::Begin`] and
//! [`Change::End`]: what it does not name is gone.

use std::net::IpAddr;

use feed::{Destination, Group, Labels};
use wire::MacAddr;

/// Linux's number of the main routing table.
pub const MAIN: u32 = 254;
/// Linux's number of the table that rules ask after the main one, and of IPv4's first table of multicast.
pub const DEFAULT: u32 = 253;
/// Linux's number of the table of local addresses.
pub const LOCAL: u32 = 255;

/// Where changes come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Source {
    /// A Forwarding Plane Manager stream, as FRR's zebra sends it.
    Fpm,
    /// The kernel of the control namespace, by netlink.
    Kernel,
}

/// A change that a feed reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A full report begins: everything that is valid follows.
    Begin,
    /// The full report is complete. A daemon never says so: for a replay, it means that nothing has come for a while. A daemon
    /// that was itself restarted may learn many of its routes later.
    End,
    /// The feed has broken off. What it reported stays until it is back.
    Lost,
    /// A route, new or changed. It replaces the route of the same table, prefix and metric.
    Route {
        /// Linux's number of the routing table.
        table: u32,
        /// The destination.
        prefix: Destination,
        /// What is to happen to packets.
        route: Route,
    },
    /// A route goes.
    Withdraw {
        /// As of the route.
        table: u32,
        /// As of the route.
        prefix: Destination,
        /// The metric of the route; `None` takes all routes of the prefix.
        metric: Option<u32>,
    },
    /// What becomes of packets that arrive with an MPLS label.
    Label {
        /// The label.
        label: u32,
        /// The route, new or changed; `None` when it has gone.
        route: Option<Box<LabelRoute>>,
    },
    /// How packets of a multicast group are distributed.
    Tree {
        /// As of a route.
        table: u32,
        /// Which packets.
        group: Group,
        /// The entry, new or changed; `None` when it has gone.
        tree: Option<Box<Tree>>,
    },
    /// How many daemons make the kernel's multicast entries of a family. With a daemon, its entries go.
    MulticastDaemons {
        /// Whether it is IPv6.
        is_six: bool,
        /// How many.
        count: u32,
    },
    /// A next-hop object, new or changed.
    Object {
        /// Its number, which is the feed's own.
        id: u32,
        /// What it stands for.
        object: Object,
    },
    /// A next-hop object goes.
    DropObject {
        /// Its number.
        id: u32,
    },
    /// An interface, new or changed; `None` when it has gone.
    Link {
        /// Its number in the control namespace.
        index: u32,
        /// What is known of it.
        link: Option<Link>,
    },
    /// An address of an interface.
    Address {
        /// The interface.
        index: u32,
        /// The address.
        address: IpAddr,
        /// The length of its network's prefix.
        len: u8,
        /// Whether it is there, or has gone.
        present: bool,
    },
    /// A neighbour.
    Neighbour {
        /// The interface.
        index: u32,
        /// Its address.
        address: IpAddr,
        /// Its Ethernet address; `None` when it is not known any more.
        ether: Option<MacAddr>,
    },
    /// A routing daemon behind FPM has ended, or is there again.
    Daemon {
        /// The daemon.
        daemon: Daemon,
        /// Whether it is there.
        is_there: bool,
    },
    /// All rules of a family that choose tables, in order.
    Rules {
        /// Whether they are for IPv6.
        is_six: bool,
        /// The rules, the most important first.
        rules: Vec<Rule>,
    },
}

/// A route as a feed reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// What is to happen to packets.
    pub kind: RouteKind,
    /// Linux's number of the protocol that made it (`/etc/iproute2/rt_protos`).
    pub protocol: u8,
    /// Of the routes of one prefix, the one with the lowest metric counts.
    pub metric: u32,
    /// Where packets go; for [`RouteKind::Unicast`] alone.
    pub way: RouteWay,
}

/// What becomes of packets that arrive with an MPLS label. The label is always taken off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelRoute {
    /// As of [`Route::protocol`].
    pub protocol: u8,
    /// Whether the TTL is carried over from and to the packet below; `None` leaves it to the router's setting.
    pub propagates_ttl: Option<bool>,
    /// The ways on. A hop's labels take the place of the label; without any, the packet leaves with what lies below it.
    pub hops: Box<[Hop]>,
}

/// A multicast entry as the kernel has it. Interfaces stand by their numbers in the control namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tree {
    /// By which packets come; `None` if it has gone.
    pub input: Option<u32>,
    /// By which copies leave, with the TTL that packets must exceed.
    pub branches: Vec<(u32, u8)>,
}

/// What a route does to packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RouteKind {
    /// Forwards them.
    Unicast,
    /// They are for this router. Broadcast and anycast addresses count, too, and routes that only the kernel can follow, such as
    /// those into tunnels.
    Local,
    /// They are for groups of receivers.
    Multicast,
    /// Drops them.
    Blackhole,
    /// Drops them with an ICMP error, host unreachable.
    Unreachable,
    /// Drops them with an ICMP error, administratively prohibited.
    Prohibit,
    /// Goes on with the next table.
    Throw,
}

/// Where packets of a route go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RouteWay {
    /// Nowhere.
    None,
    /// By a next-hop object of the same feed.
    Object(u32),
    /// By one hop.
    One(Hop),
    /// By one of several hops.
    Many(Box<[Hop]>),
}

/// One way on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Hop {
    /// The next router; `None` where the destination is on the link.
    pub gateway: Option<IpAddr>,
    /// The interface's number in the control namespace; 0 where the feed does not know it yet.
    pub index: u32,
    /// Its share of the flows next to the other hops, at least 1.
    pub weight: u16,
    /// Whether the gateway counts as on the link in any case.
    pub is_onlink: bool,
    /// Whether the feed itself says that the hop is dead or its link is down.
    pub is_dead: bool,
    /// MPLS labels to push.
    pub labels: Labels,
    /// As of [`LabelRoute::propagates_ttl`].
    pub propagates_ttl: Option<bool>,
}

/// What a next-hop object stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Object {
    /// One hop.
    Hop(Hop),
    /// A group of other objects with weights.
    Group(Vec<(u32, u16)>),
    /// Only the kernel can follow it.
    Local,
    /// Drops packets.
    Blackhole,
}

/// An interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Its name.
    pub name: String,
    /// Whether it is administratively up and has a carrier.
    pub is_up: bool,
    /// The longest packet, in bytes.
    pub mtu: u32,
    /// Its Ethernet address, if it has one.
    pub ether: Option<MacAddr>,
    /// The number of the interface that it belongs to, such as a VRF or a bridge.
    pub master: Option<u32>,
    /// The routing table, if the interface is a VRF.
    pub vrf_table: Option<u32>,
}

/// A rule that chooses a routing table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Its priority; lower counts first.
    pub priority: u32,
    /// The table; `None` where the rule does something else.
    pub table: Option<u32>,
    /// The interface of arrival that it asks for.
    pub input: Option<String>,
    /// Whether it asks for nothing else.
    pub is_simple: bool,
    /// Whether it is the one for all VRF devices: each has its own table.
    pub is_of_vrfs: bool,
}

/// A routing daemon: one of FRR that gives routes to zebra, or BIRD, which gives them to the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "named after the daemons")]
pub enum Daemon {
    Babel,
    Bgp,
    Bird,
    Eigrp,
    Fabric,
    Isis,
    Ldp,
    Nhrp,
    Ospf,
    Ospf6,
    Path,
    Pbr,
    Rip,
    Ripng,
    Sharp,
    Static,
}

/// How many daemons there are.
pub const DAEMONS: usize = Daemon::ALL.len();

impl Daemon {
    /// All of them, in the order of their numbers.
    pub const ALL: [Daemon; 16] = [
        Daemon::Babel,
        Daemon::Bgp,
        Daemon::Bird,
        Daemon::Eigrp,
        Daemon::Fabric,
        Daemon::Isis,
        Daemon::Ldp,
        Daemon::Nhrp,
        Daemon::Ospf,
        Daemon::Ospf6,
        Daemon::Path,
        Daemon::Pbr,
        Daemon::Rip,
        Daemon::Ripng,
        Daemon::Sharp,
        Daemon::Static,
    ];

    /// The name of its program.
    #[must_use]
    pub fn program(self) -> &'static str {
        match self {
            Daemon::Babel => "babeld",
            Daemon::Bgp => "bgpd",
            Daemon::Bird => "bird",
            Daemon::Eigrp => "eigrpd",
            Daemon::Fabric => "fabricd",
            Daemon::Isis => "isisd",
            Daemon::Ldp => "ldpd",
            Daemon::Nhrp => "nhrpd",
            Daemon::Ospf => "ospfd",
            Daemon::Ospf6 => "ospf6d",
            Daemon::Path => "pathd",
            Daemon::Pbr => "pbrd",
            Daemon::Rip => "ripd",
            Daemon::Ripng => "ripngd",
            Daemon::Sharp => "sharpd",
            Daemon::Static => "staticd",
        }
    }

    /// Whose route it is, by Linux's number of its protocol. Both versions of OSPF have one number.
    #[must_use]
    pub fn of(protocol: u8, prefix: &Destination) -> Option<Daemon> {
        Some(match protocol {
            12 => Daemon::Bird,
            42 => Daemon::Babel,
            186 => Daemon::Bgp,
            187 => Daemon::Isis,
            188 if matches!(prefix, Destination::V6(_)) => Daemon::Ospf6,
            188 => Daemon::Ospf,
            189 => Daemon::Rip,
            190 => Daemon::Ripng,
            191 => Daemon::Nhrp,
            192 => Daemon::Eigrp,
            193 => Daemon::Ldp,
            194 => Daemon::Sharp,
            195 => Daemon::Pbr,
            196 => Daemon::Static,
            197 => Daemon::Fabric,
            198 => Daemon::Path,
            _ => return None,
        })
    }
}

/// The name of a protocol number, as `/etc/iproute2/rt_protos` has it; others are their numbers.
#[must_use]
pub fn protocol_name(protocol: u8) -> std::borrow::Cow<'static, str> {
    let name = match protocol {
        0 => "unspec",
        1 => "redirect",
        2 => "kernel",
        3 => "boot",
        4 => "static",
        8 => "gated",
        9 => "ra",
        11 => "zebra",
        12 => "bird",
        14 => "xorp",
        16 => "dhcp",
        17 => "mrouted",
        18 => "keepalived",
        42 => "babel",
        186 => "bgp",
        187 => "isis",
        188 => "ospf",
        189 => "rip",
        190 => "ripng",
        191 => "nhrp",
        192 => "eigrp",
        193 => "ldp",
        194 => "sharp",
        195 => "pbr",
        196 => "zstatic",
        197 => "openfabric",
        198 => "srte",
        other => return other.to_string().into(),
    };
    name.into()
}
