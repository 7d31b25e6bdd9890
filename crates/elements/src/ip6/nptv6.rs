// SPDX-License-Identifier: MIT OR Apache-2.0
//! # NPTv6
//!
//! `NPTv6(INSIDE, OUTSIDE)`
//!
//! Translates the prefix of IPv6 addresses between an inside and an outside network, one address to one, without state.
//!
//! **Ports:** 2 push inputs. Input 0 takes packets that go outward: those with a source in INSIDE get one in OUTSIDE. Input 1 takes packets that go inward: those with a
//! destination in OUTSIDE get one in INSIDE. Others pass as they are. Packets leave by the output of their input's number. An outward packet to an address in OUTSIDE is for
//! another inside host: both addresses are translated, and it leaves by output 1. Output 2, if it is connected, is for packets whose address cannot be translated, for ICMP6Error.
//!
//! **Arguments**
//! * `INSIDE`, `OUTSIDE` prefixes of up to 64 bits. If one is longer, zeros follow the other one.
//!
//! Sums over addresses stay the same, so checksums of any transport stay right. A word of the address takes up the difference: the subnet with prefixes of up to 48 bits, else
//! the first word of the interface identifier that is not ffff. ICMPv6 errors are translated with the packet that they quote, if no extension header stands in front.
//!
//! **Metadata read:** network header position. **Set:** destination annotation of packets that leave by output 1, to their new destination.
//!
//! **Drops:** `no-mapping` for addresses that cannot be translated: with prefixes of up to 48 bits those of subnet ffff, else those whose identifier is all zeros or all ones. `too-short` and `bad-version` for packets that are no IPv6.
//!
//! **Handlers**
//! * `outside`, `inside` read, with an address as parameter: what it becomes.
//!
//! ```click
//! Idle -> [0] t :: NPTv6(fd01:203:405::/48, 2001:db8:1::/48) [0] -> Discard;
//! Idle -> [1] t [1] -> Discard;
//! ```
//!
//! See also: AddressTranslator, NAT44, ICMP6Error. RFC 6296

use std::net::Ipv6Addr;

use element::args::{Args, FromArg, Names};
use element::{Class, Cx, Element, HandlerError, Reason, Rehearsal, Rehearsed, handlers};
use packet::{Batch, Packet, anno};
use wire::Prefix6;
use wire::checksum;

use crate::tools::Runs;

/// The descriptor.
pub const CLASS: Class = Class::new("NPTv6", "2/2-3", || Box::new(Nptv6::default()))
    .processing("h/h")
    .flow("#/#")
    .handlers(handlers! { Nptv6:
        read "outside" => |me, address: &str| me.shown(OUTWARD, address)?;
        read "inside" => |me, address: &str| me.shown(INWARD, address)?;
    })
    .rehearsal::<Nptv6>()
    .file(file!());

/// Input and output of packets that go outward, and inward.
const OUTWARD: usize = 0;
const INWARD: usize = 1;
const HEADER: usize = 40;
const ICMP6: u8 = 58;
/// Where addresses are in the header.
const SOURCE: usize = 8;
const DESTINATION: usize = 24;

#[derive(Default)]
struct Nptv6 {
    /// The prefixes by direction: from which, and to which.
    from: [u128; 2],
    /// Prefix length.
    length: u8,
    /// What the word takes up, by direction.
    adjustment: [u16; 2],
    noutputs: usize,
}

/// A prefix as an argument.
struct Network(Prefix6);

impl Default for Network {
    fn default() -> Network {
        Network(Prefix6::DEFAULT)
    }
}

impl FromArg for Network {
    const EXPECTED: &'static str = Prefix6::EXPECTED;

    fn from_arg(text: &str, names: &Names) -> Result<Network, String> {
        Prefix6::from_arg(text, names).map(Network)
    }
}

/// An address that cannot be translated.
struct Unmappable;

/// The words of an address.
fn words(address: u128) -> [u16; 8] {
    std::array::from_fn(|n| (address >> (112 - 16 * n)) as u16)
}

/// The sum of an address in the arithmetic of checksums.
fn sum(address: u128) -> u16 {
    words(address).into_iter().fold(0, checksum::add)
}

/// Writes an address, if there is one.
#[inline]
fn put(ip: &mut [u8], at: usize, address: Option<u128>) {
    let place = ip.get_mut(at..).and_then(|rest| rest.first_chunk_mut::<16>());
    if let Some((place, address)) = place.zip(address) {
        *place = address.to_be_bytes();
    }
}

impl Nptv6 {
    fn mask(&self) -> u128 {
        u128::MAX.checked_shl(128 - u32::from(self.length)).unwrap_or(0)
    }

    /// Whether a direction translates an address.
    #[inline]
    fn is_for(&self, direction: usize, address: u128) -> bool {
        address & self.mask() == self.from[direction]
    }

    /// What an address becomes (RFC 6296, 3.1 to 3.5).
    #[inline]
    fn map(&self, direction: usize, address: u128) -> Result<u128, Unmappable> {
        let own = words(address);
        let at = match self.length {
            0..=48 if own[3] == 0xffff => return Err(Unmappable),
            0..=48 => 3,
            _ if own[4..] == [0; 4] => return Err(Unmappable),
            _ => 4 + own[4..].iter().position(|word| *word != 0xffff).ok_or(Unmappable)?,
        };
        let new = match checksum::add(own[at], self.adjustment[direction]) {
            0xffff => 0,
            word => word,
        };
        let shift = 112 - 16 * at;
        let host = address & !self.mask() & !(0xffff << shift);
        Ok(self.from[1 - direction] | host | u128::from(new) << shift)
    }

    /// What the address at a place of a packet becomes, if it is of the direction's prefix.
    #[inline]
    fn mapped(&self, direction: usize, ip: &[u8], at: usize) -> Result<Option<u128>, Unmappable> {
        let address =
            ip.get(at..).and_then(|rest| rest.first_chunk::<16>().copied()).map(u128::from_be_bytes);
        match address.filter(|address| self.is_for(direction, *address)) {
            Some(address) => self.map(direction, address).map(Some),
            None => Ok(None),
        }
    }

    /// Translates the packet that an ICMPv6 error quotes: it went the other way.
    fn quoted(&self, direction: usize, ip: &mut [u8]) {
        let is_error = ip.len() >= HEADER + 8 + HEADER && ip[6] == ICMP6 && ip[HEADER] < 128;
        if is_error && ip[HEADER + 8] >> 4 == 6 {
            let at = HEADER + 8 + if direction == OUTWARD { DESTINATION } else { SOURCE };
            // One that cannot be translated has never been, and stays.
            put(ip, at, self.mapped(direction, ip, at).unwrap_or(None));
        }
    }

    /// The output of a packet after it is translated. One that cannot be stays as it is.
    fn translate(&self, direction: usize, packet: &mut Packet) -> Result<usize, Reason> {
        let ip = packet.network_mut().ok_or(Reason::TooShort)?;
        if ip.len() < HEADER {
            return Err(Reason::TooShort);
        }
        if ip[0] >> 4 != 6 {
            return Err(Reason::BadVersion);
        }
        let unmappable = |Unmappable| Reason::NoMapping;
        let outside = match direction {
            OUTWARD => self.mapped(OUTWARD, ip, SOURCE).map_err(unmappable)?,
            _ => None,
        };
        let inside = self.mapped(INWARD, ip, DESTINATION).map_err(unmappable)?;
        put(ip, SOURCE, outside);
        put(ip, DESTINATION, inside);
        if direction == OUTWARD {
            self.quoted(OUTWARD, ip);
        }
        if let Some(inside) = inside {
            self.quoted(INWARD, ip);
            packet.set_anno(anno::DST_IP, inside.to_be_bytes());
        }
        Ok(if direction == INWARD || inside.is_some() { INWARD } else { OUTWARD })
    }

    /// What an address becomes in a direction, for people.
    fn shown(&self, direction: usize, address: &str) -> Result<String, HandlerError> {
        let name = if direction == OUTWARD { "outside" } else { "inside" };
        let given: Ipv6Addr =
            address.trim().parse().map_err(|_| HandlerError::bad_value(name, address, "an IPv6 address"))?;
        let given = u128::from(given);
        if !self.is_for(direction, given) {
            return Ok(Ipv6Addr::from(given).to_string());
        }
        let new = self.map(direction, given);
        new.map(|new| Ipv6Addr::from(new).to_string())
            .map_err(|Unmappable| HandlerError::failed(format!("{} cannot be translated", address.trim())))
    }
}

impl Element for Nptv6 {
    fn configure(&mut self, args: &mut Args<'_>) {
        let Network(inside) = args.required("INSIDE");
        let Network(outside) = args.required("OUTSIDE");
        if !args.errors().is_empty() {
            return;
        }
        self.length = inside.len().max(outside.len());
        if self.length > 64 {
            args.error(format!("prefixes are of up to 64 bits, not {}", self.length));
        }
        let prefixes = [inside, outside].map(|prefix| u128::from(prefix.addr()));
        if prefixes[0] == prefixes[1] {
            args.error("INSIDE and OUTSIDE are the same");
        }
        let sums = prefixes.map(sum);
        self.from = prefixes;
        self.adjustment = [checksum::add(sums[0], !sums[1]), checksum::add(sums[1], !sums[0])];
        self.noutputs = args.noutputs;
    }

    fn push(&mut self, cx: &mut Cx<'_>, port: usize, mut batch: Batch) {
        let mut runs = Runs::default();
        for mut packet in batch.drain(..) {
            match self.translate(port, &mut packet) {
                Ok(output) => runs.push(cx, output, packet),
                Err(Reason::NoMapping) if self.noutputs > 2 => runs.push(cx, 2, packet),
                Err(reason) => cx.drop(reason, packet),
            }
        }
        runs.finish(cx);
    }
}

impl Rehearsal for Nptv6 {
    fn rehearse(&mut self, cx: &mut Cx<'_>, port: usize, packet: Packet) -> Rehearsed {
        self.push(cx, port, Batch::of(packet));
        Rehearsed::Done
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::{Rig, Run};

    fn text(arguments: &str) -> String {
        format!(
            "t :: NPTv6({arguments}); i0 :: TestIn -> t -> o0 :: TestOut; i1 :: TestIn -> [1]t[1] -> o1 :: TestOut; t[2] -> o2 :: TestOut;"
        )
    }

    fn packet(headers: &str) -> Packet {
        let bytes = wire::compose::compose(headers).unwrap().bytes;
        let mut packet = Packet::copy_of(&bytes).unwrap();
        packet.set_network(0, 40);
        packet
    }

    /// Source and destination, after the checksum of the transport was found right.
    fn ends(ip: &[u8]) -> String {
        let [src, dst] = [8, 24].map(|at| Ipv6Addr::from(*ip[at..].first_chunk::<16>().unwrap()));
        assert!(checksum::transport_v6_ok(src, dst, wire::Protocol(ip[6]), &ip[40..]));
        format!("{src} {dst}")
    }

    fn sent(run: &Run, output: &str) -> Vec<String> {
        run.bytes(output).iter().map(|bytes| ends(bytes)).collect()
    }

    const EXAMPLE: &str = "fd01:203:405::/48, 2001:db8:1::/48";

    #[test]
    fn the_example_of_the_rfc() {
        let run = Rig::text(&text(EXAMPLE)).ready();
        run.give(
            "i0",
            vec![
                packet("ip6 fd01:203:405:1::1234 to 2001:db8:9::1 / udp 1 to 2 / payload 5"),
                packet("ip6 2001:db8:7::1 to 2001:db8:9::1 / udp 1 to 2"),
                packet("ip6 fd01:203:405:ffff::1 to 2001:db8:9::1 / udp 1 to 2"),
                packet("ip6 fd01:203:405:1::1 to 2001:db8:1:d550::1234 / tcp 1 to 2"),
                packet("ip6 fd01:203:405:1::1 to 2001:db8:1:ffff::1 / tcp 1 to 2"),
            ],
        );
        let run = run.again();
        assert_eq!(sent(&run, "o0"), ["2001:db8:1:d550::1234 2001:db8:9::1", "2001:db8:7::1 2001:db8:9::1"]);
        // Between two hosts inside.
        assert_eq!(sent(&run, "o1"), ["2001:db8:1:d550::1 fd01:203:405:1::1234"]);
        // What cannot be translated is as it came.
        assert_eq!(
            sent(&run, "o2"),
            ["fd01:203:405:ffff::1 2001:db8:9::1", "fd01:203:405:1::1 2001:db8:1:ffff::1"]
        );
        run.give(
            "i1",
            vec![
                packet("ip6 2001:db8:9::1 to 2001:db8:1:d550::1234 / icmp6 echo id 3"),
                packet("ip6 2001:db8:9::1 to 2001:db8:1:ffff::1 / udp 1 to 2"),
                packet("ip6 2001:db8:9::1 to 2001:db8:2::1 / udp 1 to 2"),
            ],
        );
        let mut run = run.again();
        let arrived = run.out("o1");
        let inside: Ipv6Addr = "fd01:203:405:1::1234".parse().unwrap();
        assert_eq!(arrived[0].anno::<16>(anno::DST_IP), inside.octets());
        let found: Vec<String> = arrived.iter().map(|p| ends(p.network().unwrap())).collect();
        assert_eq!(found, ["2001:db8:9::1 fd01:203:405:1::1234", "2001:db8:9::1 2001:db8:2::1"]);
        assert_eq!(run.out("o2").len(), 1);
        assert_eq!(run.read_with("t.outside", "fd01:203:405:1::1234"), "2001:db8:1:d550::1234");
        assert_eq!(run.read_with("t.inside", "2001:db8:1:d550::1234"), "fd01:203:405:1::1234");
        assert_eq!(run.read_with("t.inside", "::1"), "::1");
    }

    #[test]
    fn errors_quote_what_their_receiver_has_sent() {
        let quote = |headers: &str| -> String {
            wire::compose::compose(headers).unwrap().bytes.iter().map(|byte| format!("{byte:02x}")).collect()
        };
        let run = Rig::text(&text(EXAMPLE)).ready();
        let left = quote("ip6 2001:db8:1:d550::1234 to 2001:db8:9::1 / udp 1 to 2");
        run.give(
            "i1",
            vec![packet(&format!("ip6 2001:db8:5::1 to 2001:db8:1:d550::1234 / icmp6 type 1 / hex {left}"))],
        );
        // A router inside that speaks by another address quotes an inside one, too.
        let came = quote("ip6 2001:db8:9::1 to fd01:203:405:1::1234 / udp 2 to 1");
        for speaker in ["fd01:203:405:1::1234", "2001:db8:7::7"] {
            let headers = format!("ip6 {speaker} to 2001:db8:9::1 / icmp6 type 1 / hex {came}");
            run.give("i0", vec![packet(&headers)]);
        }
        let run = run.again();
        for (output, outer, quoted) in [
            ("o1", "2001:db8:5::1 fd01:203:405:1::1234", "fd01:203:405:1::1234 2001:db8:9::1"),
            ("o0", "2001:db8:1:d550::1234 2001:db8:9::1", "2001:db8:9::1 2001:db8:1:d550::1234"),
        ] {
            let sent = run.bytes(output);
            assert!(sent.iter().all(|bytes| ends(&bytes[48..]) == quoted), "{output}");
            assert_eq!((ends(&sent[0]).as_str(), ends(&sent[0][48..]).as_str()), (outer, quoted));
        }
    }

    #[test]
    fn what_cannot_be_translated_is_dropped() {
        let drops = |arguments: &str, input: &str, packets: Vec<Packet>| {
            let text = text(arguments).replace(" t[2] -> o2 :: TestOut;", "");
            let run = Rig::text(&text).ready();
            run.give(input, packets);
            let run = run.again();
            run.drops("t")
        };
        let long = "fd01:203:405:1::/64, 2001:db8:1::/60";
        for host in ["::", ":ffff:ffff:ffff:ffff"] {
            let headers = format!("ip6 fd01:203:405:1{host} to 2001:db8:9::1 / udp 1 to 2");
            assert_eq!(drops(long, "i0", vec![packet(&headers)]), [(Reason::NoMapping, 1)]);
        }
        let mut four = packet("ip6 fd01::1 to ::1 / udp 1 to 2");
        four.data_mut()[0] = 0x45;
        let short = Packet::copy_of(&[0x60; 20]).map(|mut packet| {
            packet.set_network(0, 20);
            packet
        });
        assert_eq!(drops(EXAMPLE, "i0", vec![four]), [(Reason::BadVersion, 1)]);
        assert_eq!(drops(EXAMPLE, "i1", vec![short.unwrap()]), [(Reason::TooShort, 1)]);
    }

    #[test]
    fn mistakes_are_errors() {
        let errors = |arguments: &str| Rig::text(&text(arguments)).errors();
        assert_eq!(errors("fd01::/65, 2001:db8::/48"), ["t: prefixes are of up to 64 bits, not 65"]);
        assert_eq!(errors("fd01::/48, fd01::/48"), ["t: INSIDE and OUTSIDE are the same"]);
        assert!(errors("fd01::/48").iter().any(|why| why.contains("OUTSIDE")));
    }

    proptest! {
        #[test]
        fn addresses_come_back_and_sums_stay(inside in any::<u128>(), outside in any::<u128>(), host in any::<u128>(), lengths in [0u8..=64, 0u8..=64], plain in any::<bool>()) {
            let prefix = |address: u128, length: u8| address & u128::MAX.checked_shl(128 - u32::from(length)).unwrap_or(0);
            let length = lengths[0].max(lengths[1]);
            let from = [prefix(inside, lengths[0]), prefix(outside, lengths[1])];
            let sums = from.map(sum);
            let adjustment = [checksum::add(sums[0], !sums[1]), checksum::add(sums[1], !sums[0])];
            let map = Nptv6 { from, length, adjustment, noutputs: 2 };
            // Words of ones and zeros are where it is hard.
            let host = if plain { host } else { host & 0xffff_0000_ffff_0000_ffff_0000_ffff };
            let address = from[0] | host & !map.mask();
            let Ok(new) = map.map(OUTWARD, address) else { return Ok(()) };
            prop_assert!(map.is_for(INWARD, new) && words(new)[3..] != [0xffff; 5]);
            let neutral = |address: u128| match sum(address) { 0xffff => 0, sum => sum };
            prop_assert_eq!(neutral(address), neutral(new));
            if let Ok(back) = map.map(INWARD, new) {
                prop_assert_eq!(Ipv6Addr::from(back), Ipv6Addr::from(address));
            }
        }
    }
}
