// SPDX-License-Identifier: MIT OR Apache-2.0

use proptest::prelude::*;

use super::*;

/// A message of lines, with an empty one before a body.
fn text(lines: &[&str]) -> Vec<u8> {
    lines.iter().flat_map(|line| [line.as_bytes(), b"\r\n"].concat()).collect()
}

/// The places of signalling, as they are written.
fn ends(lines: &[&str]) -> Vec<String> {
    let text = text(&[lines, &[""]].concat());
    let found = message(&text).unwrap();
    found.ends.iter().map(|end| String::from_utf8(text[end.place.clone()].to_vec()).unwrap()).collect()
}

#[test]
fn ends_stand_in_headers() {
    const OK: &str = "SIP/2.0 200 OK";
    for (line, want) in [
        ("Via: SIP/2.0/UDP 10.0.0.1:5062;branch=z9hG4bK1;rport", &["10.0.0.1:5062"][..]),
        ("v: SIP / 2.0 / UDP   10.0.0.1 ;branch=1", &["10.0.0.1"]),
        (
            "VIA:SIP/2.0/UDP 10.0.0.1;received=192.0.2.1;rport=4000,SIP/2.0/TCP 10.0.0.2:7",
            &["10.0.0.1", "192.0.2.1", "4000", "10.0.0.2:7"],
        ),
        ("Via: SIP/2.0/UDP proxy.example.com:5060;x=1", &[]),
        ("Via: SIP/2.0/UDP 10.0.0.1.example.com", &[]),
        ("Via: SIP/2.0/UDP [2001:db8::1]:5060", &[]),
        ("Contact: <sip:ann@10.0.0.1:5062;transport=udp>;expires=60", &["10.0.0.1:5062"]),
        ("m: \"sip:no@10.0.0.9\" <sip:ann@10.0.0.1>,<sips:10.0.0.2>", &["10.0.0.1", "10.0.0.2"]),
        ("Contact: \"a \\\" b\" <SIP:10.0.0.1>", &["10.0.0.1"]),
        ("Contact: *", &[]),
        ("From: sip:ann@10.0.0.1;tag=10.0.0.2", &["10.0.0.1"]),
        ("To: <sip:ann;x=sip:y@10.0.0.1>", &["10.0.0.1"]),
        ("Route: <sip:10.0.0.1;lr>, <sip:10.0.0.2:99;lr>", &["10.0.0.1", "10.0.0.2:99"]),
        ("Record-Route: <sip:10.0.0.1;lr>,\r\n <sip:10.0.0.2;lr>", &["10.0.0.1", "10.0.0.2"]),
        ("Subject: sip:10.0.0.1", &[]),
        ("Call-ID: 1@10.0.0.1", &[]),
        ("From: <tel:+1-201-555-0123>, <gossip:10.0.0.1>", &[]),
        // What is no port or no address is none.
        ("Contact: <sip:10.0.0.1:0>, <sip:10.0.0.1:65536>, <sip:10.0.0.256>, <sip:10.0.0.01>", &[]),
    ] {
        assert_eq!(ends(&[OK, line]), want, "{line}");
    }
    assert_eq!(ends(&["INVITE sip:bob@10.0.0.1:5 SIP/2.0"]), ["10.0.0.1:5"]);
    assert_eq!(ends(&["OPTIONS sip:10.0.0.1 SIP/2.0", "From: sip:10.0.0.2"]), ["10.0.0.1", "10.0.0.2"]);
}

#[test]
fn a_description_says_where_media_go() {
    let body = text(&[
        "v=0",
        "o=ann 1 2 IN IP4 10.0.0.1",
        "c=IN IP4 10.0.0.2",
        "m=audio 7000 RTP/AVP 0 8",
        "a=rtcp:7005 IN IP4 10.0.0.3",
        "m=video 7010 RTP/SAVP 96",
        "c=IN IP4 10.0.0.4/127",
        "m=image 7020 udptl t38",
        "c=IN IP6 2001:db8::1",
        "m=message 7030 TCP/MSRP *",
        "m=audio 7040/2 RTP/AVP 0",
    ]);
    let head = text(&[
        "INVITE sip:b@192.0.2.9 SIP/2.0",
        "c: application/SDP; x=1",
        &format!("l:  {} ", body.len()),
        "",
    ]);
    let whole = [&head[..], &body, b"behind"].concat();
    let found = message(&whole).unwrap();
    let shown = |place: &Range<usize>| std::str::from_utf8(&whole[place.clone()]).unwrap();
    assert_eq!(
        (found.body.clone(), shown(found.length.as_ref().unwrap())),
        (head.len()..head.len() + body.len(), &*body.len().to_string())
    );
    let addresses: Vec<&str> = found.addresses.iter().map(|(place, _)| shown(place)).collect();
    assert_eq!(addresses, ["10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4"]);
    let host = |n: u8| Some(Ipv4Addr::new(10, 0, 0, n));
    let media: Vec<_> =
        found.media.iter().map(|m| (shown(&m.place), m.host, m.has_control, m.is_known)).collect();
    assert_eq!(
        media,
        [
            ("7000", host(2), true, true),
            ("7010", host(4), true, true),
            ("7020", None, false, true),
            ("7030", host(2), false, false),
            ("7040", host(2), true, false),
        ]
    );
    assert_eq!(
        found.media[0].control.as_ref().map(|(place, port)| (shown(place), *port)),
        Some(("7005", 7005))
    );
    assert!(whole[found.media[0].end..].starts_with(b"m=video"));
    // Another body is not looked at.
    let other = text(&["INVITE sip:b@192.0.2.9 SIP/2.0", "Content-Type: application/sdpx", "", "m=audio"]);
    assert_eq!(message(&other).unwrap().media, []);
}

#[test]
fn wrong_messages_are_told_from_others() {
    let long = format!("OPTIONS sip:a SIP/2.0\r\nContact: {}\r\n\r\n", "sip:".repeat(2048));
    assert_eq!(message(long.as_bytes()), Err(Unread::Malformed));
    for other in [&b""[..], b"\r\n\r\n", b"\0\x01\0\0\x21\x12\xa4\x42", b"\x80\0"] {
        assert_eq!(message(other), Err(Unread::Other), "{other:?}");
    }
    let many = ["Route: <sip:10.0.0.1>"; PLACES];
    let sdp = "Content-Type: application/sdp";
    for lines in [
        &["INVITE sip:b@192.0.2.9 SIP/2.0"][..],
        &["INVITE sip:b@192.0.2.9", ""],
        &["INVITE SIP/2.0", ""],
        &["INVITE sip:b@192.0.2.9 SIP/3.0", ""],
        &["SIP/2.0 200 OK", "no header", ""],
        &["SIP/2.0 200 OK", "Content-Length: 1", ""],
        &["SIP/2.0 200 OK", "Content-Length: -1", ""],
        &["SIP/2.0 200 OK", "Content-Length: 1 2", "", "abc"],
        &["SIP/2.0 200 OK", "Content-Length: 9999999999", "", "abc"],
        &["SIP/2.0 200 OK", "Content-Length: 1", "l: 1", "", "abc"],
        &["SIP/2.0 200 OK", sdp, "", "m=audio"],
        &["SIP/2.0 200 OK", sdp, "", "m=audio x RTP/AVP 0"],
        &["SIP/2.0 200 OK", sdp, "", "m=audio 70000 RTP/AVP 0"],
        &[&["SIP/2.0 200 OK", sdp, ""], &["m=audio 1 RTP/AVP 0"; MEDIA + 1][..]].concat(),
        &[&["SIP/2.0 200 OK", "Via: SIP/2.0/UDP 10.0.0.1"], &many[..], &[""]].concat(),
    ] {
        assert_eq!(message(&text(lines)), Err(Unread::Malformed), "{lines:?}");
    }
}

proptest! {
    #[test]
    fn any_text_has_sound_places(
        lines in proptest::collection::vec("(Via: SIP/2.0/UDP |Contact: |From: \"a|l: 9|c: application/sdp||m=audio |c=IN IP4 |a=rtcp:|o=a 1 1 IN IP4 )(10.0.0.1|<sip:a@10.0.0.1:5|7000 RTP/AVP 0|;received=10.0.0.1;rport=7|[ -~]{0,12}){0,3}", 0..12),
        cut in 0usize..400,
    ) {
        let lines: Vec<&str> = ["INVITE sip:a@10.0.0.1 SIP/2.0"].into_iter().chain(lines.iter().map(String::as_str)).collect();
        let mut whole = text(&lines);
        whole.truncate(whole.len().saturating_sub(cut / 8));
        if let Ok(found) = message(&whole) {
            for end in &found.ends {
                let said = std::str::from_utf8(&whole[end.place.clone()]).unwrap();
                let again = match (end.host, end.port) {
                    (Some(host), Some(port)) => format!("{host}:{port}"),
                    (Some(host), None) => host.to_string(),
                    (None, port) => port.unwrap().to_string(),
                };
                prop_assert!(said == again || said.len() > again.len(), "{said} {again}");
            }
            prop_assert!(found.body.start <= found.body.end && found.body.end <= whole.len());
            for media in &found.media {
                prop_assert!(found.body.start < media.place.start && media.place.end <= media.end && media.end <= found.body.end);
            }
        }
    }
}
