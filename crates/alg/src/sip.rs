// SPDX-License-Identifier: MIT OR Apache-2.0
//! Addresses and ports in messages of SIP (RFC 3261), and of the sessions that they describe (SDP, RFC 4566).
//!
//! A client says in each message where requests and answers come to it: in Via and Contact, and as who it is in From and To. A description says where the client waits
//! for media. [`message`] finds all these places and changes nothing.
//!
//! Names, IPv6 addresses, and what a header says besides are left alone. So are bodies other than SDP.

use std::net::Ipv4Addr;
use std::ops::Range;

/// Where SIP is spoken if no port is said.
pub const PORT: u16 = 5060;
/// Places of a message at most.
const PLACES: usize = 64;
/// Bytes of a message at most.
const LONGEST: usize = 8192;
/// Media of a message at most.
pub const MEDIA: usize = 8;

/// An address that is said, with its port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    /// Where both stand: `HOST` or `HOST:PORT`. A port alone, for `rport`.
    pub place: Range<usize>,
    /// The address; none where a port stands alone, which belongs to the address before it.
    pub host: Option<Ipv4Addr>,
    /// The port, if it is said.
    pub port: Option<u16>,
    /// Whether a port may follow: not in `received`.
    pub takes_port: bool,
    /// Whether the sender says it by itself: its Contact, and the first Via of a request. What stands elsewhere may be what another one has sent before, which answers repeat
    /// (RFC 3261, 8.2.6.2).
    pub is_own: bool,
}

/// A stream of media.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Media {
    /// Where its port stands.
    pub place: Range<usize>,
    /// The port.
    pub port: u16,
    /// Where it waits, by its own `c=` or the session's.
    pub host: Option<Ipv4Addr>,
    /// Whether its control packets have the next port: RTP.
    pub has_control: bool,
    /// A port for control packets that is said, and where (RFC 3605).
    pub control: Option<(Range<usize>, u16)>,
    /// Where its lines end.
    pub end: usize,
    /// Whether it can be followed: it runs over UDP, by one port.
    pub is_known: bool,
}

/// What a message says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Message {
    /// Where its signalling goes.
    pub ends: Vec<End>,
    /// Addresses of a session: those of `o=`, `c=` and `a=rtcp`.
    pub addresses: Vec<(Range<usize>, Ipv4Addr)>,
    /// Its media.
    pub media: Vec<Media>,
    /// Where the length of the body stands, if it is said.
    pub length: Option<Range<usize>>,
    /// The body.
    pub body: Range<usize>,
}

/// Why nothing is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unread {
    /// It is no message: an empty datagram, line ends that keep a mapping, or another protocol on the same port.
    Other,
    /// It looks like one, and is wrong, or says more than is looked at.
    Malformed,
}

/// Finds what a message says.
///
/// # Errors
/// It is none, or it is wrong.
pub fn message(payload: &[u8]) -> Result<Message, Unread> {
    if !payload.first().is_some_and(u8::is_ascii_alphabetic) {
        return Err(Unread::Other);
    }
    if payload.len() > LONGEST {
        return Err(Unread::Malformed);
    }
    let head = find(payload, b"\r\n\r\n").ok_or(Unread::Malformed)?;
    let mut found = Message { body: head + 4..payload.len(), ..Message::default() };
    let first = line_end(payload, 0);
    // Only requests have a Via of their own.
    let mut via_is_own = start_line(payload, 0..first, &mut found)?;
    let (mut at, mut is_sdp) = (first + 2, false);
    while at < head + 2 {
        let mut end = line_end(payload, at);
        // A line that begins with a space goes on with the one before.
        while end < head && matches!(payload.get(end + 2), Some(b' ' | b'\t')) {
            end = line_end(payload, end + 2);
        }
        header(payload, at..end, &mut found, (&mut is_sdp, &mut via_is_own))?;
        at = end + 2;
    }
    if is_sdp {
        description(payload, &mut found)?;
    }
    let places = found.ends.len() + found.addresses.len();
    if places > PLACES || found.media.len() > MEDIA { Err(Unread::Malformed) } else { Ok(found) }
}

/// Where `what` begins first.
fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what)
}

/// Where the line that begins at `at` ends.
fn line_end(bytes: &[u8], at: usize) -> usize {
    find(&bytes[at..], b"\r\n").map_or(bytes.len(), |length| at + length)
}

const VERSION: &[u8] = b"SIP/2.0";

/// The first line. Returns whether the message is a request.
fn start_line(payload: &[u8], line: Range<usize>, found: &mut Message) -> Result<bool, Unread> {
    let text = &payload[line.clone()];
    if text.starts_with(VERSION) {
        return Ok(false);
    }
    let uri = text.iter().position(|b| *b == b' ').ok_or(Unread::Malformed)? + 1;
    let end = text.len().checked_sub(VERSION.len() + 1).filter(|end| *end >= uri).ok_or(Unread::Malformed)?;
    if text[end] != b' ' || &text[end + 1..] != VERSION {
        return Err(Unread::Malformed);
    }
    uris(payload, line.start + uri..line.start + end, false, found);
    Ok(true)
}

/// One header, with the lines that go on with it.
fn header(
    payload: &[u8],
    line: Range<usize>,
    found: &mut Message,
    (is_sdp, via_is_own): (&mut bool, &mut bool),
) -> Result<(), Unread> {
    let text = &payload[line.clone()];
    let colon = text.iter().position(|b| *b == b':').ok_or(Unread::Malformed)?;
    let name = text[..colon].trim_ascii_end().to_ascii_lowercase();
    let value = line.start + colon + 1..line.end;
    match &name[..] {
        b"via" | b"v" => vias(payload, value, std::mem::take(via_is_own), found),
        b"contact" | b"m" => uris(payload, value, true, found),
        b"from" | b"f" | b"to" | b"t" | b"route" | b"record-route" => {
            uris(payload, value, false, found);
        }
        b"content-length" | b"l" => {
            let blanks = payload[value.clone()].iter().take_while(|b| is_blank(**b)).count();
            let digits = number_at(payload, value.start + blanks..value.end);
            let (place, length) = digits.ok_or(Unread::Malformed)?;
            let is_all = payload[place.end..value.end].trim_ascii().is_empty();
            // What follows a body is not looked at (RFC 3261, 18.3).
            let end = found.body.start.checked_add(length).filter(|end| *end <= payload.len());
            let end = end.filter(|_| is_all && found.length.is_none()).ok_or(Unread::Malformed)?;
            (found.length, found.body.end) = (Some(place), end);
        }
        b"content-type" | b"c" => {
            let text = payload[value].trim_ascii().to_ascii_lowercase();
            *is_sdp = text
                .strip_prefix(b"application/sdp")
                .is_some_and(|rest| !rest.first().is_some_and(u8::is_ascii_alphanumeric));
        }
        _ => {}
    }
    Ok(())
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}

/// A number of up to nine digits at the start of a place, and where it stands.
fn number_at(payload: &[u8], place: Range<usize>) -> Option<(Range<usize>, usize)> {
    let digits = payload[place.clone()].iter().take_while(|b| b.is_ascii_digit()).count();
    let place = place.start..place.start + digits;
    let value = std::str::from_utf8(&payload[place.clone()]).ok()?.parse().ok().filter(|_| digits < 10)?;
    Some((place, value))
}

/// A port at the start of a place.
fn port_at(payload: &[u8], place: Range<usize>) -> Option<(Range<usize>, u16)> {
    let (place, port) = number_at(payload, place)?;
    Some((place, u16::try_from(port).ok().filter(|port| *port > 0)?))
}

/// An IPv4 address at the start of a place.
fn address_at(payload: &[u8], place: Range<usize>) -> Option<(Range<usize>, Ipv4Addr)> {
    let length =
        payload[place.clone()].iter().take(16).take_while(|b| b.is_ascii_digit() || **b == b'.').count();
    let of_name = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_');
    let end = place.start + length;
    // A name may begin like one.
    if end < place.end && of_name(&payload[end]) {
        return None;
    }
    let address = std::str::from_utf8(&payload[place.start..end]).ok()?.parse().ok()?;
    Some((place.start..end, address))
}

/// `HOST` or `HOST:PORT` at the start of a place.
fn end_at(payload: &[u8], place: Range<usize>) -> Option<End> {
    let (address, host) = address_at(payload, place.clone())?;
    let colon = payload[address.end..place.end].first() == Some(&b':');
    let port = if colon { Some(port_at(payload, address.end + 1..place.end)?) } else { None };
    let end = port.as_ref().map_or(address.end, |(place, _)| place.end);
    Some(End {
        place: address.start..end,
        host: Some(host),
        port: port.map(|(_, port)| port),
        takes_port: true,
        is_own: false,
    })
}

/// The ends of quoted text and of all else in a value: what is quoted is not looked at.
fn unquoted(payload: &[u8], value: Range<usize>) -> Vec<Range<usize>> {
    let (mut all, mut start, mut is_quoted, mut at) = (Vec::new(), value.start, false, value.start);
    while at < value.end {
        match payload[at] {
            b'\\' if is_quoted => at += 1,
            b'"' => {
                if !is_quoted {
                    all.push(start..at);
                }
                (is_quoted, start) = (!is_quoted, at + 1);
            }
            _ => {}
        }
        at += 1;
    }
    if !is_quoted && start < value.end {
        all.push(start..value.end);
    }
    all
}

/// The hosts of all addresses of SIP in a value.
fn uris(payload: &[u8], value: Range<usize>, is_own: bool, found: &mut Message) {
    for part in unquoted(payload, value) {
        let mut at = part.start;
        while let Some(colon) = payload[at..part.end].iter().position(|b| *b == b':') {
            let scheme = payload[at..at + colon].to_ascii_lowercase();
            at += colon + 1;
            let before = |name: &[u8]| {
                let rest = scheme.strip_suffix(name)?;
                Some(!rest.last().is_some_and(u8::is_ascii_alphanumeric))
            };
            if !(before(b"sip").or_else(|| before(b"sips")).unwrap_or(false)) {
                continue;
            }
            let ends = |b: &u8| is_blank(*b) || matches!(b, b'>' | b'<' | b',');
            let length = payload[at..part.end].iter().position(ends).unwrap_or(part.end - at);
            let user = payload[at..at + length].iter().position(|b| *b == b'@').map_or(0, |user| user + 1);
            found.ends.extend(end_at(payload, at + user..at + length).map(|end| End { is_own, ..end }));
            // A word has one host: to look behind each part of it would take the square of its length.
            at += length;
        }
    }
}

/// Who has sent or passed on a request, in a Via.
fn vias(payload: &[u8], value: Range<usize>, mut is_own: bool, found: &mut Message) {
    for part in unquoted(payload, value) {
        for one in split(payload, part, b',') {
            let mut pieces = split(payload, one, b';');
            let Some(first) = pieces.next() else { continue };
            // Protocol / version / transport, then who.
            let slashes = split(payload, first.clone(), b'/').nth(2);
            let Some(last) = slashes else { continue };
            let text = &payload[last.clone()];
            let blank = text.iter().take_while(|b| is_blank(**b)).count();
            let transport = text[blank..].iter().take_while(|b| !is_blank(**b)).count();
            let gap = text[blank + transport..].iter().take_while(|b| is_blank(**b)).count();
            let end = end_at(payload, last.start + blank + transport + gap..last.end);
            found.ends.extend(end.map(|end| End { is_own, ..end }));
            is_own = false;
            for piece in pieces {
                via_parameter(payload, piece, found);
            }
        }
    }
}

/// `received=ADDRESS` and `rport=PORT`: by what a packet came (RFC 3581).
fn via_parameter(payload: &[u8], piece: Range<usize>, found: &mut Message) {
    let Some(equals) = payload[piece.clone()].iter().position(|b| *b == b'=') else { return };
    let value = piece.start + equals + 1..piece.end;
    match &payload[piece.start..piece.start + equals].trim_ascii().to_ascii_lowercase()[..] {
        b"received" => {
            let address = address_at(payload, value);
            found.ends.extend(address.map(|(place, host)| End {
                place,
                host: Some(host),
                port: None,
                takes_port: false,
                is_own: false,
            }));
        }
        b"rport" => {
            let port = port_at(payload, value);
            found.ends.extend(port.map(|(place, port)| End {
                place,
                host: None,
                port: Some(port),
                takes_port: false,
                is_own: false,
            }));
        }
        _ => {}
    }
}

/// The parts of a place between bytes.
fn split(payload: &[u8], place: Range<usize>, by: u8) -> impl Iterator<Item = Range<usize>> + '_ {
    let mut start = place.start;
    payload[place].split(move |b| *b == by).map(move |part| {
        let whole = start..start + part.len();
        start = whole.end + 1;
        whole
    })
}

/// The description of a session in the body.
fn description(payload: &[u8], found: &mut Message) -> Result<(), Unread> {
    let (mut at, body_end) = (found.body.start, found.body.end);
    let mut of_session = None;
    while at < body_end {
        let length = payload[at..body_end].iter().position(|b| *b == b'\n');
        let next = length.map_or(body_end, |length| at + length + 1);
        let text = payload[at..next].trim_ascii_end();
        let line = at..at + text.len();
        match text.get(..2) {
            Some(b"m=") => {
                if found.media.len() >= MEDIA {
                    return Err(Unread::Malformed);
                }
                found.media.push(Media { host: of_session, ..media(payload, line)? });
            }
            Some(b"c=") => {
                let address = network_address(payload, line.start + 2..line.end);
                match found.media.last_mut() {
                    Some(media) => media.host = address.as_ref().map(|(_, address)| *address),
                    None => of_session = address.as_ref().map(|(_, address)| *address),
                }
                found.addresses.extend(address);
            }
            // User, session, version, then where.
            Some(b"o=") => {
                let mut words = split(payload, line.start + 2..line.end, b' ');
                let rest = words.nth(3).map(|fourth| fourth.start..line.end);
                found.addresses.extend(rest.and_then(|rest| network_address(payload, rest)));
            }
            Some(b"a=") => {
                if let (Some(rest), Some(media)) = (text.strip_prefix(b"a=rtcp:"), found.media.last_mut()) {
                    let place = line.end - rest.len()..line.end;
                    media.control = port_at(payload, place.clone());
                    let words = split(payload, place, b' ').nth(1).map(|word| word.start..line.end);
                    found.addresses.extend(words.and_then(|words| network_address(payload, words)));
                }
            }
            _ => {}
        }
        if let Some(media) = found.media.last_mut() {
            media.end = next;
        }
        at = next;
    }
    Ok(())
}

/// `IN IP4 ADDRESS`: the address.
fn network_address(payload: &[u8], place: Range<usize>) -> Option<(Range<usize>, Ipv4Addr)> {
    let rest = payload[place.clone()].strip_prefix(b"IN IP4 ")?;
    address_at(payload, place.end - rest.len()..place.end)
}

/// `m=KIND PORT PROTOCOL ...`.
fn media(payload: &[u8], line: Range<usize>) -> Result<Media, Unread> {
    let words: Vec<Range<usize>> = split(payload, line.start + 2..line.end, b' ').take(3).collect();
    let [_, port, protocol] = &words[..] else { return Err(Unread::Malformed) };
    let (place, number) = number_at(payload, port.clone()).ok_or(Unread::Malformed)?;
    let is_alone = place.end == port.end;
    let number = u16::try_from(number).map_err(|_| Unread::Malformed)?;
    let protocol = payload[protocol.clone()].to_ascii_uppercase();
    let has_control = protocol.starts_with(b"RTP/") || protocol.starts_with(b"UDP/TLS/RTP/");
    let is_known = is_alone && (has_control || protocol == b"UDPTL" || protocol == b"UDP");
    Ok(Media { place, port: number, host: None, has_control, control: None, end: line.end, is_known })
}

#[cfg(test)]
mod tests;
