// SPDX-License-Identifier: MIT OR Apache-2.0
//! Link headers of captures: tshark, where there is one, finds the same IP packets behind them as we do.

use std::process::Command;

use junctor_wire::link::{Found, find_ip, is_known, name};
use junctor_wire::pcap::{Format, Writer};
use proptest::prelude::*;

/// An IPv4 packet, 10.1.2.3 > 10.4.5.6, UDP.
const FOUR: [u8; 28] =
    [0x45, 0, 0, 28, 0, 7, 0, 0, 64, 17, 0x5f, 0xbd, 10, 1, 2, 3, 10, 4, 5, 6, 4, 0, 5, 0, 0, 8, 0, 0];

/// An IPv6 packet, 2001:db8::1 > 2001:db8::2, without anything.
fn six() -> Vec<u8> {
    let address = |last: u8| [&[0x20, 1, 0xd, 0xb8][..], &[0; 11], &[last]].concat();
    [&[0x60, 0, 0, 0, 0, 0, 59, 64][..], &address(1), &address(2)].concat()
}

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(|b| !b.is_ascii_whitespace()).collect();
    digits.chunks(2).map(|two| u8::from_str_radix(std::str::from_utf8(two).unwrap(), 16).unwrap()).collect()
}

/// A link type, a header of it, and whether IPv6 follows.
const CASES: &[(u32, &str, bool)] = &[
    (0, "02000000", false),
    (0, "1e000000", true),
    (1, "020000000001 020000000002 0800", false),
    (1, "020000000001 020000000002 86dd", true),
    (1, "020000000001 020000000002 8100 0005 0800", false),
    (1, "020000000001 020000000002 88a8 0005 8100 0006 86dd", true),
    (1, "020000000001 020000000002 8847 00010 0 40 00011 1 40", false),
    (1, "020000000001 020000000002 8864 11 00 0007 001e 0021", false),
    (1, "020000000001 020000000002 8864 11 00 0007 002a 0057", true),
    (1, "020000000001 020000000002 0024 aaaa03 000000 0800", false),
    (6, "10 40 020000000001 020000000002 aaaa03 000000 0800", false),
    (6, "10 40 020000000001 820000000002 0630 0011 0020 aaaa03 000000 0800", false),
    (7, "01 02 d4 00 0007", false),
    (7, "01 02 f0", false),
    (9, "ff03 0021", false),
    (9, "0021", false),
    (9, "ff03 21", false),
    (9, "ff03 0057", true),
    (10, "50 020000000001 020000000002 aaaa03 000000 0800", false),
    (50, "ff03 0021", false),
    (50, "0f00 0800", false),
    (51, "11 00 0007 001e 0021", false),
    (100, "aaaa03 000000 0800", false),
    (101, "", false),
    (101, "", true),
    (104, "0f00 0800", false),
    (104, "0f00 86dd", true),
    (105, "0802 0000 020000000001 020000000002 020000000003 0000 aaaa03 000000 0800", false),
    (105, "8802 0000 020000000001 020000000002 020000000003 0000 0000 aaaa03 000000 0800", false),
    (107, "1841 03 cc", false),
    (107, "1841 03 8e", true),
    (107, "1841 03 00 80 000000 0800", false),
    (108, "00000002", false),
    (109, "02000000 00000000 00000000", false),
    (113, "0000 0001 0006 020000000001 0000 0800", false),
    (113, "0000 0001 0006 020000000001 0000 86dd", true),
    (122, "1000020000000001 0000020000000002 aaaa03 000000 0800", false),
    (123, "02 00 0064 aaaa03 000000 0800", false),
    (
        127,
        "00 00 0800 00000000 0802 0000 020000000001 020000000002 020000000003 0000 aaaa03 000000 0800",
        false,
    ),
    (129, "01 02 0000 d4 00 0007", false),
    (138, "0200000000000001 0200000000000002 0800", false),
    (166, "00 03 0021", false),
    (192, "00 00 0800 01000000 020000000001 020000000002 0800", false),
    (204, "00 ff03 0021", false),
    (205, "00 0f00 0800", false),
    (206, "00 1841 03 cc", false),
    (226, "02 02 0000 0000001c 00000001 00000000 00000000 00000000", false),
    (228, "", false),
    (229, "", true),
    (239, "02 00 0000 0800 0100 0800 0000 2000 0900", false),
    (240, "01000000 020000000001 020000000002 0800", false),
    (242, "00000000000000000000000000000000000000000000000000000000000000000000000000000000 0800 0000", false),
    (274, "55555555555555d5 020000000001 020000000002 0800", false),
    (
        163,
        "80211001 00000040 0000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000
         0802 0000 020000000001 020000000002 020000000003 0000 aaaa03 000000 0800",
        false,
    ),
    (
        119,
        "44000000 90000000 00000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000
         0802 0000 020000000001 020000000002 020000000003 0000 aaaa03 000000 0800",
        false,
    ),
    (197, "0000000000000000 02 04 0050 0000 0032 0000 020000000001 020000000002 0800", false),
    (8, "00 000000000000000000000000000000", false),
    (117, "3d 02 00 00 656d30 000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000 000000", false),
    (276, "0800 0000 00000001 0001 00 06 0200000000010000", false),
    (3, "8282628282 40e0 8484628484 4061 03 cc", false),
    (3, "8282628282 40e0 8484628484 4060 8686628686 4061 03 cc", false),
    (202, "00 8282628282 40e0 8484628484 4061 03 cc", false),
    (99, "000000000000 0800 000000000000000000000000000000000000000000000000000000000000000000000000", false),
    (128, "01 00 0001 01 020000000001 020000000002 0800", false),
    (128, "01 00 0001 00 0a 01 05 00 01 020000000001 020000000002 86dd", true),
    (128, "01 00 0012 01 0802 0000 020000000001 020000000002 020000000003 0000 aaaa03 000000 0800", false),
    (143, "00 00 002e aabb 020000000001 020000000002 0800", false),
    (143, "01 03 002f 300102 aabb 020000000001 020000000002 0800", false),
    (219, "00010 0 40 00011 1 40", false),
    (258, "6c000000 01000000 0c000000 000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000", false),
    (258, "6c000000 01000000 01000000 000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000 020000000001 020000000002 86dd", true),
    (259, "5555d55555000177 020000000001 020000000002 0800", false),
    (281, "020000000001 020000000002 20000001 0800", false),
    (282, "20000001 020000000001 020000000002 0800", false),
    (284, "020000000001 020000000002 c0080001 8100 0005 86dd", true),
    (285, "020000000001 020000000002 dada 0000 40080001 0800", false),
];

fn packet(header: &str, ipv6: bool) -> (Vec<u8>, usize) {
    let header = hex(header);
    let at = header.len();
    (if ipv6 { [header, six()].concat() } else { [header, FOUR.to_vec()].concat() }, at)
}

#[test]
fn ip_packets_are_found_behind_every_link_header() {
    for (link, header, ipv6) in CASES {
        let (bytes, at) = packet(header, *ipv6);
        assert_eq!(find_ip(*link, &bytes), Found::Ip(at), "{link} {header}");
        assert!(is_known(*link) && name(*link).is_some(), "{link}");
        // Cut off within the link header there is nothing, and no panic.
        for len in 0..at {
            if let Found::Ip(found) = find_ip(*link, &bytes[..len]) {
                assert!(found >= len, "{link} {header}: {len}");
            }
        }
    }
    for (link, bytes) in [
        (1, hex("020000000001 020000000002 0806 0001")),
        (1, hex("020000000001 020000000002 0026 424203")),
        (9, hex("ff03 c021 01")),
        (105, hex("8000 0000 020000000001")),
        (105, hex("0842 0000 020000000001 020000000002 020000000003 0000 aaaa03 000000 0800")),
        (113, hex("0000 0001 0006 020000000001 0000 0806")),
        (192, hex("00 00 0800 c0000000 00 00 0800 c0000000")),
        (258, hex("0c000000 01000000 02010000 0c000000 01000000 0c000000")),
        (258, hex("ffffffff 01000000 0c000000")),
        (3, hex("8282628282 40e0 8484628484 4061 03 f0")),
        (143, hex("c0 00 0012 aabb 020000000001 020000000002 0800")),
    ] {
        assert_eq!(find_ip(link, &bytes), Found::NotIp, "{link} {bytes:02x?}");
    }
    for link in [147, 162, 189, 227, 9999] {
        assert_eq!(find_ip(link, &FOUR), Found::Unknown, "{link}");
    }
    let refused = [
        (195, "IEEE802_15_4_WITHFCS"),
        (230, "IEEE802_15_4_NOFCS"),
        (283, "IEEE802_15_4_TAP"),
        (178, "JUNIPER_ETHER"),
    ];
    for (link, called) in refused {
        assert_eq!((find_ip(link, &FOUR), name(link)), (Found::Unknown, Some(called)));
    }
    assert_eq!((name(147), name(162), name(9999)), (Some("USER0"), Some("USER15"), None));
}

/// Headers that name the link type of what follows, which may be an unknown one.
const AROUND_OTHERS: [u32; 2] = [192, 258];

proptest! {
    /// Damaged packets of any type are looked at without harm, with any claims of their headers.
    #[test]
    fn any_bytes_can_be_looked_at(link in 0u32..300, case in 0..CASES.len(), cut in 0..200usize, noise: Vec<u8>) {
        let (good, _) = packet(CASES[case].1, CASES[case].2);
        let mut bytes = good[..cut.min(good.len())].to_vec();
        bytes.extend(noise);
        let known = find_ip(link, &bytes) != Found::Unknown;
        prop_assert!(known == is_known(link) || AROUND_OTHERS.contains(&link));
        let _ = find_ip(CASES[case].0, &bytes);
    }
}

/// Types that this tshark does not take apart as far as IP, or only with preferences; tcpdump knows the last four.
const UNSEEN: [u32; 12] = [8, 166, 205, 206, 240, 274, 143, 219, 281, 282, 284, 285];

#[test]
fn tshark_finds_the_same() {
    if Command::new("tshark").arg("-v").output().is_err() {
        eprintln!("skipped: there is no tshark");
        return;
    }
    let cases: Vec<_> = CASES.iter().filter(|case| !UNSEEN.contains(&case.0)).collect();
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("all.pcapng");
    let file = std::fs::File::create(&path).expect("a file");
    let mut writer = Writer::new(file, Format::PcapNg, 1, 0).expect("a header");
    for (link, header, ipv6) in &cases {
        let (bytes, _) = packet(header, *ipv6);
        assert!(writer.write_as(*link, 1_000_000_000, bytes.len(), &bytes).expect("a packet"));
    }
    writer.flush().expect("a file");
    let said = Command::new("tshark")
        .args(["-n", "-T", "fields", "-e", "ip.dst", "-e", "ipv6.dst", "-r"])
        .arg(&path)
        .output()
        .expect("tshark");
    let said = String::from_utf8_lossy(&said.stdout);
    let lines: Vec<&str> = said.lines().map(str::trim).collect();
    assert_eq!(lines.len(), cases.len(), "{said}");
    for ((link, header, ipv6), line) in cases.into_iter().zip(lines) {
        assert_eq!(line, if *ipv6 { "2001:db8::2" } else { "10.4.5.6" }, "{link} {header}");
    }
}
