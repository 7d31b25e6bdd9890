// SPDX-License-Identifier: MIT OR Apache-2.0
//! Messages of SIP through a translator: what goes out and what comes in, as text.

use super::*;
use crate::policy::UDP;

const OFFICE: &str = "translate 10.0.1.0/24 to 192.0.2.1 ports 4000-4999\nalg sip on\n\
    forward udp 5060 to 10.0.1.20\nstatic 10.0.3.9 to 192.0.2.9";

/// A message: `|` between lines, `||` before the body, whose length is put in place of `#`.
fn message(text: &str) -> Vec<u8> {
    let text = text.replace('|', "\r\n");
    let body = text.find("\r\n\r\n").map_or(0, |at| text.len() - at - 4);
    text.replace('#', &body.to_string()).into_bytes()
}

/// Sends a datagram with a message from a host to a peer, or back, and returns the message as the other side gets it.
fn say(nat: &mut Nat, now: u64, ends: [(&str, u16); 2], leaving: bool, text: &[u8]) -> Vec<u8> {
    let [(from, sport), (to, dport)] = ends;
    let hex: String = text.iter().map(|byte| format!("{byte:02x}")).collect();
    let mut ip = packet(&format!("ip {from} > {to} / udp {sport} > {dport} / hex {hex}"));
    let number = match go(nat, now, &mut ip, leaving) {
        Outcome::Watched(number) => number,
        other => panic!("{other:?} of {}", ends_shown(&ip)),
    };
    assert!(nat.speaks_sip(number));
    let side = usize::from(!leaving);
    let edits = nat.sip(now, number, side, text);
    consistent(nat);
    applied(text, &edits)
}

fn ends_shown(ip: &[u8]) -> String {
    super::ends(ip)
}

/// The text with others in place of its parts.
fn applied(text: &[u8], edits: &[Edit]) -> Vec<u8> {
    let (mut out, mut at) = (Vec::new(), 0);
    for (place, new) in edits {
        out.extend_from_slice(&text[at..place.start]);
        out.extend_from_slice(new);
        at = place.end;
    }
    out.extend_from_slice(&text[at..]);
    out
}

/// The outside port of an inside one.
fn outside(nat: &Nat, host: &str, port: u16) -> u16 {
    nat.mapping_from(UDP, (address(host), port)).unwrap_or_else(|| panic!("{host}:{port}")).1.1
}

const SERVER: (&str, u16) = ("203.0.113.9", 5060);

/// What a host says, and what is heard outside: `<7000>` is the outside port of its port 7000.
fn check_out(policy: &str, from: (&str, u16), said: &str, heard: &str) -> (Nat, String) {
    let mut nat = nat(policy);
    let got = say(&mut nat, 0, [from, SERVER], true, &message(said));
    let mut heard = heard.to_owned();
    let begins = |text: &str, at: usize| text[at + 1..].starts_with(|c: char| c.is_ascii_digit());
    while let Some((at, _)) = heard.match_indices('<').find(|(at, _)| begins(&heard, *at)) {
        let end = at + heard[at..].find('>').unwrap();
        let port = outside(&nat, from.0, heard[at + 1..end].parse().unwrap());
        heard.replace_range(at..=end, &port.to_string());
    }
    assert_eq!(String::from_utf8_lossy(&got), String::from_utf8_lossy(&message(&heard)), "{policy}");
    (nat, heard)
}

const OFFER: &str =
    "v=0|o=ann 1 1 IN IP4 10.0.1.5|s=-|c=IN IP4 10.0.1.5|t=0 0|m=audio 7000 RTP/AVP 0|a=sendrecv|";

#[test]
fn an_inside_phone_says_outside_addresses() {
    for (said, heard) in [
        (
            "REGISTER sip:example.com SIP/2.0|Via: SIP/2.0/UDP 10.0.1.5:5060;rport|From: <sip:ann@example.com>;tag=1|Contact: <sip:ann@10.0.1.5:5060>|Content-Length: #||",
            "REGISTER sip:example.com SIP/2.0|Via: SIP/2.0/UDP 192.0.2.1:<5060>;rport|From: <sip:ann@example.com>;tag=1|Contact: <sip:ann@192.0.2.1:<5060>>|Content-Length: #||",
        ),
        // A port that goes without saying; another one that is said; addresses of others.
        (
            "OPTIONS sip:b@203.0.113.9 SIP/2.0|v: SIP/2.0/UDP 10.0.1.5|f: <sip:10.0.1.5>|m: <sip:10.0.1.5:6000>,<sip:10.0.1.6>||",
            "OPTIONS sip:b@203.0.113.9 SIP/2.0|v: SIP/2.0/UDP 192.0.2.1:<5060>|f: <sip:192.0.2.1:<5060>>|m: <sip:192.0.2.1:<6000>>,<sip:10.0.1.6>||",
        ),
        (
            &format!(
                "INVITE sip:b@203.0.113.9 SIP/2.0|Via: SIP/2.0/UDP 10.0.1.5|Content-Type: application/sdp|Content-Length: #||{OFFER}"
            ),
            &format!(
                "INVITE sip:b@203.0.113.9 SIP/2.0|Via: SIP/2.0/UDP 192.0.2.1:<5060>|Content-Type: application/sdp|Content-Length: #||{}",
                OFFER.replace("10.0.1.5", "192.0.2.1").replace("7000", "<7000>")
            ),
        ),
        // Each stream has its ports; one is refused, one waits elsewhere, one says where its control packets come.
        (
            "SIP/2.0 200 OK|c: application/sdp|l: #||c=IN IP4 10.0.1.5|m=audio 7000 RTP/AVP 0|m=video 0 RTP/AVP 9|m=audio 7100 RTP/AVP 0|c=IN IP4 198.51.100.7|m=video 7200 RTP/AVP 9|a=rtcp:7300|m=image 7400 udptl t38|",
            "SIP/2.0 200 OK|c: application/sdp|l: #||c=IN IP4 192.0.2.1|m=audio <7000> RTP/AVP 0|m=video 0 RTP/AVP 9|m=audio 7100 RTP/AVP 0|c=IN IP4 198.51.100.7|m=video <7200> RTP/AVP 9|a=rtcp:<7300>|m=image <7400> udptl t38|",
        ),
    ] {
        let (mut nat, _) = check_out(OFFICE, ("10.0.1.5", 5060), said, heard);
        assert_eq!((nat.alg_counts().sip_rewritten, nat.alg_counts().sip_left), (1, 0));
        // Said once more, it is the same.
        let again = say(&mut nat, S, [("10.0.1.5", 5060), SERVER], true, &message(said));
        let sessions = nat.len();
        assert_eq!(again, say(&mut nat, 2 * S, [("10.0.1.5", 5060), SERVER], true, &message(said)));
        assert_eq!(nat.len(), sessions);
        // Media end with their time.
        nat.reap(600 * S, 100);
        assert_eq!((nat.len(), nat.mappings(), nat.expected.len()), (0, 0, 0));
    }
}

#[test]
fn what_comes_in_says_inside_addresses() {
    let said =
        "REGISTER sip:example.com SIP/2.0|Via: SIP/2.0/UDP 10.0.1.5|Contact: <sip:ann@10.0.1.5:6000>||";
    let mut nat = nat(OFFICE);
    say(&mut nat, 0, [("10.0.1.5", 5060), SERVER], true, &message(said));
    let [own, other] = [5060, 6000].map(|port| outside(&nat, "10.0.1.5", port));
    for (said, heard) in [
        (
            format!(
                "SIP/2.0 200 OK|Via: SIP/2.0/UDP 192.0.2.1:{own};received=192.0.2.1;rport={own}|Contact: <sip:ann@192.0.2.1:{other}>|To: <sip:x@192.0.2.1>||"
            ),
            "SIP/2.0 200 OK|Via: SIP/2.0/UDP 10.0.1.5:5060;received=10.0.1.5;rport=5060|Contact: <sip:ann@10.0.1.5:6000>|To: <sip:x@192.0.2.1>||",
        ),
        (
            format!(
                "INVITE sip:ann@192.0.2.1:{own} SIP/2.0|Via: SIP/2.0/UDP 203.0.113.9;rport={own}|To: <sip:ann@192.0.2.1:{own}>|c: application/sdp|l: #||o=b 1 1 IN IP4 203.0.113.9|c=IN IP4 203.0.113.9|m=audio {own} RTP/AVP 0|"
            ),
            &format!(
                "INVITE sip:ann@10.0.1.5:5060 SIP/2.0|Via: SIP/2.0/UDP 203.0.113.9;rport={own}|To: <sip:ann@10.0.1.5:5060>|c: application/sdp|l: #||o=b 1 1 IN IP4 203.0.113.9|c=IN IP4 203.0.113.9|m=audio {own} RTP/AVP 0|"
            ),
        ),
        // Ports of others, or of nobody.
        (
            "ACK sip:ann@192.0.2.1:5060 SIP/2.0|Contact: <sip:192.0.2.1:3999>||".to_owned(),
            "ACK sip:ann@192.0.2.1:5060 SIP/2.0|Contact: <sip:192.0.2.1:3999>||",
        ),
    ] {
        let heard = message(heard);
        let got = say(&mut nat, S, [SERVER, ("192.0.2.1", own)], false, &message(&said));
        assert_eq!(String::from_utf8_lossy(&got), String::from_utf8_lossy(&heard));
    }
}

#[test]
fn an_outside_phone_calls_one_inside() {
    // By a forward, and a host with an address for itself.
    for (outside, inside) in [("192.0.2.1", "10.0.1.20"), ("192.0.2.9", "10.0.3.9")] {
        let mut nat = nat(OFFICE);
        let caller = ("198.51.100.7", 5062);
        let invite = |host: &str| {
            format!(
                "INVITE sip:bob@{host} SIP/2.0|Via: SIP/2.0/UDP 198.51.100.7:5062|To: sip:bob@{host}|l: #||"
            )
        };
        let got = say(&mut nat, 0, [caller, (outside, 5060)], false, &message(&invite(outside)));
        assert_eq!(got, message(&invite(inside)));
        let answer = |host: &str, port: &str| {
            format!(
                "SIP/2.0 200 OK|Via: SIP/2.0/UDP 198.51.100.7:5062|To: sip:bob@{host};tag=2|Contact: <sip:{host}>|c: application/sdp|l: #||c=IN IP4 {host}|m=audio {port} RTP/AVP 0|"
            )
        };
        let got = say(&mut nat, S, [(inside, 5060), caller], true, &message(&answer(inside, "8000")));
        let port = match inside {
            "10.0.1.20" => self::outside(&nat, inside, 8000).to_string(),
            _ => "8000".to_owned(),
        };
        assert_eq!(String::from_utf8_lossy(&got), String::from_utf8_lossy(&message(&answer(outside, &port))));
        // Its media arrive.
        let rtp = come(&mut nat, 2 * S, &format!("ip 198.51.100.7 > {outside} / udp 9000 > {port}")).unwrap();
        assert_eq!(rtp, format!("198.51.100.7:9000 > {inside}:8000"));
    }
}

// RFC 4787, 4.2.3: control packets of RTP come to the next port.
#[test]
fn media_get_an_even_port_and_the_next_one() {
    for translation in ["ports 4000-4999", "ports 4000-4999 block 8", "ports 4000-4999 deterministic"] {
        for seed in 0..30 {
            let text = format!("translate 10.0.1.0/28 to 192.0.2.1 {translation}\nalg sip on");
            let mut nat = Nat::new(policy(&text), &[], seed);
            for port in [7000, 7002, 7004] {
                let offer = OFFER.replace("7000", &port.to_string());
                let invite = format!("INVITE sip:b@x SIP/2.0|c: application/sdp||{offer}");
                say(&mut nat, 0, [("10.0.1.5", 5060), SERVER], true, &message(&invite));
                let [rtp, rtcp] = [port, port + 1].map(|port| outside(&nat, "10.0.1.5", port));
                assert_eq!((rtp % 2, rtcp), (0, rtp + 1), "{text}");
            }
        }
    }
    // Where no two adjacent ones are free, the text says where control packets come.
    let text = "translate 10.0.1.0/28 to 192.0.2.1 ports 4001-4002\nalg sip on\nforward udp 5060 to 10.0.1.5";
    let said = format!("INVITE sip:b@x SIP/2.0|c: application/sdp|l: #||{OFFER}");
    let heard = said.replace("10.0.1.5", "192.0.2.1").replace("7000", "<7000>") + "a=rtcp:<7001>|";
    let (nat, heard) = check_out(text, ("10.0.1.5", 5060), &said, &heard);
    let ports: BTreeSet<u16> = [7000, 7001].map(|port| outside(&nat, "10.0.1.5", port)).into();
    // By chance they may be adjacent, but never an even one and the next.
    assert!(ports == [4001, 4002].into() && heard.contains("a=rtcp:"));
}

#[test]
fn what_cannot_be_helped_stays_and_is_counted() {
    let invite = |body: &str| format!("INVITE sip:b@x SIP/2.0|c: application/sdp|l: #||{body}");
    let few = "translate 10.0.1.0/28 to 192.0.2.1 ports 4000-4001\nalg sip on\nforward udp 5060 to 10.0.1.5";
    let two = format!("{OFFER}m=video 7100 RTP/AVP 9|");
    for (policy, text, left) in [
        // Wrong ones, and other protocols.
        (OFFICE, "INVITE sip:b@10.0.1.5".to_owned(), 1),
        (OFFICE, "\0\u{1}\0\0".to_owned(), 0),
        (OFFICE, "||".to_owned(), 0),
        // Media over TCP, and ports that are not there: all of the description stays.
        (OFFICE, invite("c=IN IP4 10.0.1.5|m=message 7000 TCP/MSRP *|"), 1),
        (OFFICE, invite("c=IN IP4 10.0.1.5|m=audio 65535 RTP/AVP 0|"), 1),
        (few, invite(&two), 1),
    ] {
        let mut nat = nat(policy);
        let text = message(&text);
        let got = say(&mut nat, 0, [("10.0.1.5", 5060), SERVER], true, &text);
        assert_eq!(
            (String::from_utf8_lossy(&got), nat.alg_counts().sip_left),
            (String::from_utf8_lossy(&text), left)
        );
        assert_eq!(nat.alg_counts().sip_rewritten, 0);
    }
    // A host has so many ports for media and no more; they come back.
    let mut nat = nat("translate 10.0.1.0/24 to 192.0.2.1\nalg sip on");
    let mut said = 0;
    for port in 0..600u16 {
        let text = message(&invite(&OFFER.replace("7000", &(7000 + 2 * port).to_string())));
        said += u32::from(say(&mut nat, 0, [("10.0.1.5", 5060), SERVER], true, &text) != text);
    }
    assert_eq!((said, nat.alg_counts().sip_left, nat.mappings()), (512, 88, 1025));
    nat.reap(300 * S, 10_000);
    let text = message(&invite(OFFER));
    assert_ne!(say(&mut nat, 301 * S, [("10.0.1.5", 5060), SERVER], true, &text), text);
    // It is off unless it is asked for.
    let mut off = self::nat(HOME);
    let mut ip = packet("ip 10.0.1.5 > 203.0.113.9 / udp 5060 > 5060");
    assert_eq!(go(&mut off, 0, &mut ip, true), Outcome::Translated);
}

/// A peer writes addresses of the inside into what an answer repeats.
#[test]
fn what_a_peer_has_written_opens_nothing() {
    for (line, heard) in [
        ("From: <sip:x@10.0.1.20:161>", "From: <sip:x@10.0.1.20:161>"),
        ("To: <sip:x@10.0.1.20:161>", "To: <sip:x@10.0.1.20:161>"),
        ("Record-Route: <sip:10.0.1.20:161>", "Record-Route: <sip:10.0.1.20:161>"),
        ("Via: SIP/2.0/UDP 10.0.1.20:161", "Via: SIP/2.0/UDP 10.0.1.20:161"),
        // What the server says by itself has its forward.
        ("Contact: <sip:10.0.1.20>", "Contact: <sip:192.0.2.1>"),
    ] {
        let mut nat = nat(OFFICE);
        come(&mut nat, 0, "ip 203.0.113.9 > 192.0.2.1 / udp 5060 > 5060").unwrap();
        let sessions = nat.len();
        let answer = message(&format!("SIP/2.0 200 OK|{line}||"));
        let got = say(&mut nat, 0, [("10.0.1.20", 5060), SERVER], true, &answer);
        assert_eq!(String::from_utf8_lossy(&got), format!("SIP/2.0 200 OK\r\n{heard}\r\n\r\n"));
        assert_eq!((nat.len(), nat.mappings()), (sessions, 0), "{line}");
    }
}
