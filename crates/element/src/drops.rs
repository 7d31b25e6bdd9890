// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why packets are dropped: one list for the whole product. Names are stable; each has one sentence.

macro_rules! reasons {
    ($($(#[$meta:meta])* $variant:ident $name:literal $text:literal;)*) => {
        /// Why a packet was dropped. Every drop is counted under one of these, per element and worker.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Reason {
            $(#[doc = $text] $variant,)*
        }

        impl Reason {
            /// All reasons, in the order of their numbers.
            pub const ALL: &'static [Reason] = &[$(Reason::$variant),*];

            /// The stable name, as counters and reports print it.
            pub const fn name(self) -> &'static str {
                match self { $(Reason::$variant => $name),* }
            }

            /// What it means, in one sentence.
            pub const fn text(self) -> &'static str {
                match self { $(Reason::$variant => $text),* }
            }
        }
    };
}

reasons! {
    Discarded "discarded" "The packet was to end here: an element that discards took it, or one that has read what it says.";
    NoMemory "no-memory" "Packet memory was exhausted.";
    QueueFull "queue-full" "A queue was at its capacity.";
    EarlyDrop "early-drop" "Active queue management (RED) dropped the packet before its queue was full.";
    RateExceeded "rate-exceeded" "A meter or shaper was above its rate.";
    NotMatched "not-matched" "No pattern of a classifier matched, or its output is not connected.";
    Filtered "filtered" "A filter rule denied the packet.";
    Inactive "inactive" "The element was switched off.";
    NoOutput "no-output" "The packet was meant for an output that is not connected.";
    TooShort "too-short" "The packet is shorter than the headers it should hold.";
    TooLong "too-long" "The packet is longer than the medium or the element allows.";
    BadVersion "bad-version" "The IP version is not the one expected.";
    BadHeaderLength "bad-header-length" "A header length is below the minimum or beyond the packet.";
    BadLength "bad-length" "A length field disagrees with the packet.";
    BadChecksum "bad-checksum" "A checksum is wrong.";
    BadSource "bad-source" "The source address is one that no host may use.";
    MartianSource "martian-source" "The source address is one from which nothing can come on the Internet.";
    MartianDestination "martian-destination" "The destination address is one to which nothing can go on the Internet.";
    DirectedBroadcast "directed-broadcast" "The packet is a broadcast to a network of the router, which is not allowed.";
    ReversePath "reverse-path" "The route back to the source does not lead to where the packet came from.";
    BadDestination "bad-destination" "The destination address is invalid here.";
    BadOption "bad-option" "A header option is malformed or forbidden.";
    SourceRouted "source-routed" "The packet has a source route, which is not allowed here.";
    SourceRouteFailed "source-route-failed" "The next hop of a strict source route is not the next entry of it.";
    BadProtocol "bad-protocol" "The protocol is not the one that the element handles.";
    TtlExpired "ttl-expired" "The time to live ran out.";
    NoRoute "no-route" "The routing table has no entry for the destination.";
    Blackhole "blackhole" "The route to the destination is a blackhole.";
    Prohibited "prohibited" "The route to the destination prohibits it.";
    NoMulticastRoute "no-multicast-route" "The multicast table has no entry for the source and the group.";
    WrongInterface "wrong-interface" "A multicast packet came by another interface than its entry says.";
    TtlThreshold "ttl-threshold" "The time to live of a multicast packet is not above the threshold of any output.";
    NoReceivers "no-receivers" "The entry of a multicast packet leads out of no other interface.";
    NoLabel "no-label" "The label table has no entry for the MPLS label.";
    ReservedLabel "reserved-label" "An MPLS label below 16 has no meaning here.";
    LabelStackTooDeep "label-stack-too-deep" "The packet has more MPLS labels than this router looks at.";
    NoAdjacency "no-adjacency" "The adjacency that a route named is not there any more.";
    NoNeighbour "no-neighbour" "The next hop's link address could not be resolved.";
    NeighbourQueueFull "neighbour-queue-full" "Too many packets wait for a link address.";
    NeighbourTableFull "neighbour-table-full" "The next hop's place was needed for other neighbours.";
    Broadcast "broadcast" "A link-level broadcast or multicast must not be forwarded.";
    MustFragment "must-fragment" "The packet is larger than the MTU and must not be fragmented.";
    BadFragment "bad-fragment" "A fragment overlaps others or exceeds the datagram.";
    FragmentOverlap "fragment-overlap" "Fragments of the packet overlap with different bytes, so none of it is used.";
    FragmentEcn "fragment-ecn" "Fragments of the packet contradict each other about congestion, so none of it is used.";
    ReassemblyTimeout "reassembly-timeout" "Not all fragments of a datagram came in time.";
    ReassemblyLimit "reassembly-limit" "Too much memory waits for missing fragments.";
    NoIcmpError "no-icmp-error" "An ICMP error must not be sent about this packet.";
    IcmpRateLimited "icmp-rate-limited" "An ICMP error would have exceeded the configured rate.";
    PuntRateLimited "punt-rate-limited" "More packets than allowed were meant for the host's own stack.";
    ControlRateLimited "control-rate-limited" "More messages of a control protocol than allowed were meant for the host's own stack.";
    BadHopLimit "bad-hop-limit" "A message that must not leave its link came with a hop limit below 255.";
    BadDiscovery "bad-discovery" "A neighbour discovery message is malformed or not for this element.";
    BadBfd "bad-bfd" "A BFD packet is malformed, or is authenticated where no authentication is in use.";
    NoBfdSession "no-bfd-session" "A BFD packet belongs to no session.";
    BadArp "bad-arp" "An ARP message is malformed or not for this element.";
    BadBpdu "bad-bpdu" "A message of the spanning tree protocol is malformed, or came in where none is to be believed.";
    SpoofedBpdu "spoofed-bpdu" "A message of the spanning tree protocol claims to be from this bridge or from a group.";
    BpduGuard "bpdu-guard" "A bridge spoke behind a port where none may be, so the port was switched off.";
    BadMembership "bad-membership" "A message of IGMP or MLD is malformed, so nothing was learned from it.";
    NoAssociation "no-sa" "There is no IPsec security association for the packet, or it is over.";
    NoPolicy "no-policy" "The packet came by an IPsec tunnel, and no security policy allows it there.";
    PolicyDiscard "policy-discard" "A security policy discards the packet.";
    Unprotected "unprotected" "The packet came without the protection that its security policy demands.";
    WrongAssociation "wrong-sa" "The packet came by a security association that is not for such packets.";
    BadEsp "bad-esp" "An ESP packet is truncated or malformed.";
    EspFragment "esp-fragment" "A fragment that IPsec must not take: reassemble ESP packets first.";
    AmbiguousFragment "ambiguous-fragment" "A later fragment, whose ports are unknown, could be of a security policy for ports.";
    Replayed "replayed" "An ESP or WireGuard packet with this number has come before.";
    OutsideWindow "outside-window" "The number of an ESP or WireGuard packet is older than the anti-replay window.";
    BadIcv "bad-icv" "An ESP or WireGuard packet failed its integrity check.";
    EspDummy "esp-dummy" "An ESP packet that carries nothing, sent to hide how much is sent.";
    EcnLost "ecn-lost" "A tunnel signalled congestion to a packet whose sender would not understand it.";
    SequenceExhausted "sequence-exhausted" "A security association or a WireGuard session has used all its numbers.";
    NoPeer "no-peer" "The allowed IPs of no WireGuard peer have the packet's destination.";
    NoEndpoint "no-endpoint" "Nobody has said yet where the WireGuard peer is, or there is no own address to reach it from.";
    NoSession "no-session" "There is no WireGuard session for the packet, or it is over.";
    HandshakeQueueFull "handshake-queue-full" "Too many packets wait for handshakes with WireGuard peers; the oldest of the peer, or of the one with the most, gave way.";
    HandshakeUnanswered "handshake-unanswered" "The packet waited for a handshake that the WireGuard peer did not answer.";
    NotAllowed "not-allowed" "A packet came by a WireGuard peer whose allowed IPs do not have its source.";
    BadWireGuard "bad-wireguard" "A datagram is no message of WireGuard, or what it carries is no IP packet.";
    HandshakeRefused "handshake-refused" "A WireGuard handshake message is forged or repeated, or is from nobody who is known.";
    HandshakeLimited "handshake-limited" "More WireGuard handshake messages than allowed came, or one from an address that is not proven.";
    SyncRefused "sync-refused" "A datagram with sessions of another router is forged or repeated, or of another version.";
    NoMapping "no-mapping" "An address translator has no mapping for the packet.";
    MappingTableFull "mapping-table-full" "An address translator could not make another mapping.";
    MappingTaken "mapping-taken" "The only mapping that an address translator could make belongs to another flow, and is guaranteed.";
    MappingFiltered "mapping-filtered" "The filter of an address translator does not let this sender use the mapping.";
    NoFreePort "no-free-port" "An address translator has no outside port left, or an outside address that another inside host uses with the same peer.";
    NoOutsideAddress "no-outside-address" "The outside interface of an address translator has no address at present, or sessions of the host's former one are still ending.";
    SubscriberLimit "subscriber-limit" "The inside host has as many sessions, ports or blocks of ports through an address translator as it may.";
    HostFlowLimit "host-flow-limit" "The host has begun as many flows through an address translator as it may.";
    FirewallRule "firewall-rule" "A rule of a firewall, or its default, refuses the packet.";
    NoConnection "no-connection" "The packet belongs to no connection that a firewall knows, and cannot begin one.";
    OutOfWindow "out-of-window" "The sequence numbers do not belong to the connection that a firewall knows.";
    ConnectionTableFull "connection-table-full" "A firewall has as many connections as it may.";
    AmbiguousConnection "ambiguous-connection" "A firewall knows a connection from another VRF that has the same answers.";
    SourceLimit "source-limit" "The source has as many connections through a firewall as the rule allows.";
    NoServer "no-server" "No server of a load balancer's service takes connections.";
    Unreassembled "unreassembled" "A fragment, where whole packets are needed: reassemble it first.";
    ForeignVlan "foreign-vlan" "The frame belongs to a VLAN that is not taken here.";
    NoVlan "no-vlan" "A VLAN tag is missing or not the one expected.";
    BadVlan "bad-vlan" "A VLAN tag has a forbidden number or stands inside another where it must not.";
    OwnSource "own-source" "The source address is the router's or the bridge's own.";
    PortBlocked "port-blocked" "The bridge port does not forward at present.";
    StormLimited "storm-limited" "The port has caused more flooding than it may.";
    LoopDetected "loop-detected" "The packet came back to an element that was still working.";
    DeviceFull "device-full" "The device's transmit queue was full.";
    DeviceDown "device-down" "The device was down or had vanished.";
    DeviceError "device-error" "The device refused the packet.";
    PlaneFull "plane-full" "The channel to another plane was full.";
    PlaneAbsent "plane-absent" "No plane receives from the channel at present.";
    SocketError "socket-error" "The socket could not send the packet.";
    ParseError "parse-error" "A text line could not be turned into a packet.";
    NotForUs "not-for-us" "The packet is addressed to another host.";
    RouterStopped "router-stopped" "The router ended while the packet was on its way.";
    Aged "aged" "The packet waited longer than allowed.";
    Impaired "impaired" "An element that simulates loss or damage took the packet.";
    HotSwap "hot-swap" "The packet was held by an element, or was of a VRF, for which a new configuration has no successor.";
}

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// There is no reason of this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no packet is dropped for the reason '{name}'{} ('junctor drops --list' has them all)", .near.map_or(String::new(), |near| format!("; did you mean '{near}'?")))]
pub struct UnknownReason {
    name: String,
    /// A reason with nearly that name.
    near: Option<&'static str>,
}

impl std::str::FromStr for Reason {
    type Err = UnknownReason;

    fn from_str(name: &str) -> Result<Reason, UnknownReason> {
        let found = Reason::ALL.iter().find(|reason| reason.name() == name).copied();
        let near = || lang::suggest(name, Reason::ALL.iter().map(|reason| reason.name()));
        found.ok_or_else(|| UnknownReason { name: name.to_owned(), near: near() })
    }
}

/// A set of reasons.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reasons(u128);

const _: () = assert!(Reason::ALL.len() <= u128::BITS as usize);

impl Reasons {
    /// All reasons there are.
    pub const ALL: Reasons = Reasons(u128::MAX);

    /// Whether this is one of them.
    #[inline]
    pub const fn has(self, reason: Reason) -> bool {
        self.0 >> reason as u32 & 1 != 0
    }

    /// Those of both.
    #[must_use]
    pub const fn with(self, others: Reasons) -> Reasons {
        Reasons(self.0 | others.0)
    }

    /// Whether there is none.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl FromIterator<Reason> for Reasons {
    fn from_iter<I: IntoIterator<Item = Reason>>(all: I) -> Reasons {
        Reasons(all.into_iter().fold(0, |set, reason| set | 1 << reason as u32))
    }
}

/// Drops of one element on one worker, by reason.
#[derive(Clone, Debug, Default)]
pub struct DropCounts(Option<Box<[u64; Reason::ALL.len()]>>);

sync::all_zero!(DropCounts { 0 });

impl DropCounts {
    /// Counts `n` drops.
    #[inline]
    pub fn add(&mut self, reason: Reason, n: u64) {
        self.0.get_or_insert_with(|| Box::new([0; Reason::ALL.len()]))[reason as usize] += n;
    }

    /// Reasons with drops, and how many.
    pub fn iter(&self) -> impl Iterator<Item = (Reason, u64)> + '_ {
        let counts = self.0.as_deref().map_or(&[][..], |counts| counts);
        Reason::ALL.iter().zip(counts).filter(|(_, n)| **n > 0).map(|(r, n)| (*r, *n))
    }

    /// A reason for which more were dropped than `before`.
    pub fn since(&self, before: &DropCounts) -> Option<Reason> {
        let earlier = |reason: Reason| before.0.as_ref().map_or(0, |counts| counts[reason as usize]);
        self.iter().find(|(reason, n)| *n > earlier(*reason)).map(|(reason, _)| reason)
    }

    /// All drops.
    pub fn total(&self) -> u64 {
        self.iter().map(|(_, n)| n).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_have_what_was_put_in() {
        let some: Reasons = [Reason::Discarded, Reason::HotSwap].into_iter().collect();
        let in_some: Vec<Reason> = Reason::ALL.iter().copied().filter(|r| some.has(*r)).collect();
        assert_eq!(in_some, [Reason::Discarded, Reason::HotSwap]);
        assert!(Reason::ALL.iter().all(|r| Reasons::ALL.has(*r) && !Reasons::default().has(*r)));
        assert!(Reasons::default().is_empty() && !some.with(Reasons::default()).is_empty());
    }

    #[test]
    fn names_are_unique_and_texts_are_sentences() {
        for (i, a) in Reason::ALL.iter().enumerate() {
            assert!(
                a.text().ends_with('.') && a.text().chars().next().is_some_and(char::is_uppercase),
                "{a}"
            );
            assert!(a.name().chars().all(|c| c.is_ascii_lowercase() || c == '-'), "{a}");
            assert!(Reason::ALL[..i].iter().all(|b| a.name() != b.name()), "{a} twice");
        }
    }
}
