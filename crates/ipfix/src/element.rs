// SPDX-License-Identifier: MIT OR Apache-2.0
//! Information elements: name, number and length of each field (IANA, *IPFIX Information Elements*).

macro_rules! elements {
    ($($(#[$doc:meta])* $element:ident $name:literal $number:literal $length:literal;)*) => {
        /// A field of a record. Values are unsigned numbers in network byte order.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Element {
            $($(#[$doc])* $element,)*
        }

        impl Element {
            /// All elements.
            pub const ALL: &[Element] = &[$(Element::$element),*];

            /// The name that IANA has registered.
            pub const fn name(self) -> &'static str {
                match self { $(Element::$element => $name,)* }
            }

            /// Its number.
            pub const fn number(self) -> u16 {
                match self { $(Element::$element => $number,)* }
            }

            /// Octets of its value.
            pub const fn length(self) -> usize {
                match self { $(Element::$element => $length,)* }
            }
        }
    };
}

elements! {
    /// The protocol of IP.
    ProtocolIdentifier "protocolIdentifier" 4 1;
    /// The inside port; of ICMP queries the identifier.
    SourceTransportPort "sourceTransportPort" 7 2;
    /// The inside host.
    SourceIpv4Address "sourceIPv4Address" 8 4;
    /// The peer's port.
    DestinationTransportPort "destinationTransportPort" 11 2;
    /// The peer.
    DestinationIpv4Address "destinationIPv4Address" 12 4;
    /// The inside host, if it has IPv6.
    SourceIpv6Address "sourceIPv6Address" 27 16;
    /// Which exporter says it.
    ExportingProcessId "exportingProcessId" 144 4;
    /// Records that were not sent since the exporter started.
    NotSentFlowTotalCount "notSentFlowTotalCount" 166 8;
    /// The outside address.
    PostNatSourceIpv4Address "postNATSourceIPv4Address" 225 4;
    /// The peer, after translation.
    PostNatDestinationIpv4Address "postNATDestinationIPv4Address" 226 4;
    /// The outside port.
    PostNaptSourceTransportPort "postNAPTSourceTransportPort" 227 2;
    /// The peer's port, after translation.
    PostNaptDestinationTransportPort "postNAPTDestinationTransportPort" 228 2;
    /// What happened (RFC 8158, 4.2).
    NatEvent "natEvent" 230 1;
    /// Which addresses are used up.
    NatPoolId "natPoolId" 283 4;
    /// When it happened, in milliseconds since 1970.
    ObservationTimeMilliseconds "observationTimeMilliseconds" 323 8;
    /// The first port of a block.
    PortRangeStart "portRangeStart" 361 2;
    /// The last port of a block.
    PortRangeEnd "portRangeEnd" 362 2;
    /// From one port of a block to the next one.
    PortRangeStepSize "portRangeStepSize" 363 2;
    /// Ports of a block.
    PortRangeNumPorts "portRangeNumPorts" 364 2;
    /// Which limit was reached.
    NatQuotaExceededEvent "natQuotaExceededEvent" 466 4;
    /// Sessions at most.
    MaxSessionEntries "maxSessionEntries" 471 4;
    /// Bindings at most.
    MaxBibEntries "maxBIBEntries" 472 4;
    /// Sessions or ports of an inside host at most.
    MaxEntriesPerUser "maxEntriesPerUser" 473 4;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_rise_and_lengths_fit() {
        let numbers: Vec<u16> = Element::ALL.iter().map(|element| element.number()).collect();
        assert!(numbers.is_sorted_by(|one, next| one < next), "{numbers:?}");
        assert!(Element::ALL.iter().all(|element| (1..=16).contains(&element.length())));
        assert!(
            Element::ALL.iter().all(|element| element.name().starts_with(|c: char| c.is_ascii_lowercase()))
        );
    }
}
