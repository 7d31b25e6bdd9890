// SPDX-License-Identifier: MIT OR Apache-2.0
//! Templates: the fields of each kind of record (RFC 8158, 5).
//!
//! A template keeps its ID in all versions, since some collectors forget no template of an exporter that has been restarted. New ones
//! go to the end.

use Element::*;

use crate::Element;
use crate::message::Writer;

/// The fields of a kind of record.
#[derive(Debug, PartialEq, Eq)]
pub struct Template {
    /// What its records are about.
    pub name: &'static str,
    /// How many of its first fields are a scope; none, unless its records are about the exporter (RFC 7011, 3.4.2.2).
    pub scopes: u16,
    /// Its fields, in the order of their values.
    pub fields: &'static [Element],
}

/// The place of a template in [`TEMPLATES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub(crate) enum Kind {
    Nat44Session,
    Nat44SessionTo,
    Nat64Session,
    Nat64SessionTo,
    Nat44Binding,
    Nat44Port,
    Nat64Binding,
    Nat64Port,
    Block,
    BlockOfIpv6,
    AddressesExhausted,
    PortsExhausted,
    SessionQuota,
    BindingQuota,
    HostQuota,
    HostQuotaOfIpv6,
    NotSent,
}

/// The first ID that a template may have.
const FIRST_ID: u16 = 256;

/// All templates, by their IDs from 256 on.
pub const TEMPLATES: &[Template] = &[
    template("NAT44 session", &[TIME, NatEvent, INSIDE4, OUTSIDE, PROTOCOL, INSIDE_PORT, OUTSIDE_PORT]),
    template(
        "NAT44 session with its peer",
        &[
            TIME,
            NatEvent,
            INSIDE4,
            OUTSIDE,
            PROTOCOL,
            INSIDE_PORT,
            OUTSIDE_PORT,
            DestinationIpv4Address,
            PostNatDestinationIpv4Address,
            DestinationTransportPort,
            PostNaptDestinationTransportPort,
        ],
    ),
    template("NAT64 session", &[TIME, NatEvent, INSIDE6, OUTSIDE, PROTOCOL, INSIDE_PORT, OUTSIDE_PORT]),
    template(
        "NAT64 session with its peer",
        &[
            TIME,
            NatEvent,
            INSIDE6,
            OUTSIDE,
            PROTOCOL,
            INSIDE_PORT,
            OUTSIDE_PORT,
            PostNatDestinationIpv4Address,
            PostNaptDestinationTransportPort,
        ],
    ),
    template("NAT44 binding", &[TIME, NatEvent, INSIDE4, OUTSIDE, PROTOCOL, INSIDE_PORT, OUTSIDE_PORT]),
    template("NAT44 port", &[TIME, NatEvent, INSIDE4, OUTSIDE, PROTOCOL, OUTSIDE_PORT]),
    template("NAT64 binding", &[TIME, NatEvent, INSIDE6, OUTSIDE, PROTOCOL, INSIDE_PORT, OUTSIDE_PORT]),
    template("NAT64 port", &[TIME, NatEvent, INSIDE6, OUTSIDE, PROTOCOL, OUTSIDE_PORT]),
    template(
        "port block",
        &[
            TIME,
            NatEvent,
            INSIDE4,
            OUTSIDE,
            PortRangeStart,
            PortRangeEnd,
            PortRangeStepSize,
            PortRangeNumPorts,
        ],
    ),
    template(
        "port block of an IPv6 host",
        &[
            TIME,
            NatEvent,
            INSIDE6,
            OUTSIDE,
            PortRangeStart,
            PortRangeEnd,
            PortRangeStepSize,
            PortRangeNumPorts,
        ],
    ),
    template("addresses exhausted", &[TIME, NatEvent, NatPoolId]),
    template("ports exhausted", &[TIME, NatEvent, OUTSIDE, PROTOCOL]),
    template("session quota", &[TIME, NatEvent, NatQuotaExceededEvent, MaxSessionEntries]),
    template("binding quota", &[TIME, NatEvent, NatQuotaExceededEvent, MaxBibEntries]),
    template("host quota", &[TIME, NatEvent, NatQuotaExceededEvent, MaxEntriesPerUser, INSIDE4]),
    template(
        "host quota of an IPv6 host",
        &[TIME, NatEvent, NatQuotaExceededEvent, MaxEntriesPerUser, INSIDE6],
    ),
    // RFC 7011, 4.3. It asks for packets, octets and times, too, which nobody knows of events that are gone.
    Template { name: "records not sent", scopes: 1, fields: &[ExportingProcessId, NotSentFlowTotalCount] },
];

const TIME: Element = ObservationTimeMilliseconds;
const INSIDE4: Element = SourceIpv4Address;
const INSIDE6: Element = SourceIpv6Address;
const INSIDE_PORT: Element = SourceTransportPort;
const OUTSIDE: Element = PostNatSourceIpv4Address;
const OUTSIDE_PORT: Element = PostNaptSourceTransportPort;
const PROTOCOL: Element = ProtocolIdentifier;

const fn template(name: &'static str, fields: &'static [Element]) -> Template {
    Template { name, scopes: 0, fields }
}

impl Kind {
    pub(crate) const ALL: [Kind; TEMPLATES.len()] = [
        Kind::Nat44Session,
        Kind::Nat44SessionTo,
        Kind::Nat64Session,
        Kind::Nat64SessionTo,
        Kind::Nat44Binding,
        Kind::Nat44Port,
        Kind::Nat64Binding,
        Kind::Nat64Port,
        Kind::Block,
        Kind::BlockOfIpv6,
        Kind::AddressesExhausted,
        Kind::PortsExhausted,
        Kind::SessionQuota,
        Kind::BindingQuota,
        Kind::HostQuota,
        Kind::HostQuotaOfIpv6,
        Kind::NotSent,
    ];

    pub(crate) fn template(self) -> &'static Template {
        &TEMPLATES[self as usize]
    }

    /// Its ID, by which records name it.
    pub(crate) fn id(self) -> u16 {
        FIRST_ID + self as u16
    }

    /// Writes the template record (RFC 7011, 3.4.1 and 3.4.2; RFC 3954, 5.2).
    pub(crate) fn write(self, to: &mut Writer) {
        let Template { scopes, fields, .. } = self.template();
        to.number(self.id().into(), 2);
        to.number(fields.len() as u128, 2);
        if *scopes > 0 {
            to.number((*scopes).into(), 2);
        }
        for field in *fields {
            to.number(field.number().into(), 2);
            to.number(field.length() as u128, 2);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_and_templates_agree() {
        assert_eq!(TEMPLATES.len(), Kind::NotSent as usize + 1);
        for (kind, name) in [
            (Kind::Nat44Session, "NAT44 session"),
            (Kind::Nat64Port, "NAT64 port"),
            (Kind::BlockOfIpv6, "port block of an IPv6 host"),
            (Kind::HostQuota, "host quota"),
            (Kind::NotSent, "records not sent"),
        ] {
            assert_eq!(kind.template().name, name);
        }
        for template in TEMPLATES {
            let mut numbers: Vec<u16> = template.fields.iter().map(|field| field.number()).collect();
            numbers.sort_unstable();
            numbers.dedup();
            assert_eq!(numbers.len(), template.fields.len(), "{}", template.name);
            assert!(usize::from(template.scopes) < template.fields.len());
        }
    }
}
