// SPDX-License-Identifier: MIT OR Apache-2.0
//! Route files by example.

use super::*;

fn read(bytes: &[u8], options: &Options) -> Result<Routes, String> {
    let mut routes = Routes::default();
    match routes.read("f", &mut &bytes[..], options) {
        Ok(()) => Ok(routes),
        Err(error) => {
            assert!(
                routes.is_empty() && routes.hops.is_empty() && routes.skipped.is_empty(),
                "nothing is loaded"
            );
            Err(error.to_string())
        }
    }
}

/// All that was read, one thing a line.
fn shown(routes: &Routes) -> String {
    let hop = |id: NextHopId| routes.hops.get(id).expect("a known hop").to_string();
    let v4 = routes.v4.iter().map(|(prefix, id)| format!("{prefix} {}\n", hop(*id)));
    let v6 = routes.v6.iter().map(|(prefix, id)| format!("{prefix} {}\n", hop(*id)));
    let updates = routes.updates.iter().map(|update| match update.hop {
        Some(id) => format!("A {} {}\n", update.prefix, hop(id)),
        None => format!("W {}\n", update.prefix),
    });
    let skipped = routes.skipped.iter().map(|(why, count)| format!("skipped {count} {why}\n"));
    v4.chain(v6).chain(updates).chain(skipped).collect()
}

fn check(text: &str, options: &Options, want: Result<&str, &str>) {
    let got = read(text.as_bytes(), options).map(|routes| shown(&routes));
    assert_eq!(got.as_ref().map(String::as_str).map_err(String::as_str), want, "{text}");
}

fn check_text(text: &str, want: Result<&str, &str>) {
    check(text, &Options::default(), want);
}

#[test]
fn our_text() {
    check_text("", Ok(""));
    check_text(
        "# table\n\n10.0.0.0/8 7 # comment\n0.0.0.0/0 255\n::/0 7\n2001:db8::/32 1\r\n192.0.2.1/32 4294967295",
        Ok("10.0.0.0/8 7\n0.0.0.0/0 255\n192.0.2.1/32 4294967295\n::/0 7\n2001:db8::/32 1\n"),
    );
    check_text(
        "A 10.0.0.0/8 7\nW 10.0.0.0/8\nA 10.0.0.0/8 7\nW ::/0\n",
        Ok("A 10.0.0.0/8 7\nW 10.0.0.0/8\nA 10.0.0.0/8 7\nW ::/0\n"),
    );
    check_text(
        "nexthop 1 via 192.0.2.1 dev eth0\nnexthop 2 blackhole\nnexthop 3 nexthop via 192.0.2.1 weight 2 nexthop dev b\nnexthop 4 id 9\n\
         10.0.0.0/8 1\n11.0.0.0/8 2\n12.0.0.0/8 3\n13.0.0.0/8 4\n",
        Ok("10.0.0.0/8 via 192.0.2.1 dev eth0\n11.0.0.0/8 blackhole\n\
            12.0.0.0/8 nexthop via 192.0.2.1 weight 2 nexthop dev b weight 1\n13.0.0.0/8 9\n"),
    );
}

#[test]
fn our_text_refused() {
    let lines =
        "lines are `PREFIX/LEN ID`, `A PREFIX/LEN ID`, `W PREFIX/LEN` or `nexthop ID via ADDRESS dev NAME`";
    let route = |line: &str| format!("f:2: `{line}` is no route; {lines}");
    let check = |line: &str, want: &str| check_text(&format!("10.0.0.0/8 1\n{line}\n"), Err(want));
    check("10.1.2.3/16 1", "f:2: `10.1.2.3/16` has bits set beyond its length; did you mean 10.1.0.0/16?");
    check(
        "2001:db8::1/64 1",
        "f:2: `2001:db8::1/64` has bits set beyond its length; did you mean 2001:db8::/64?",
    );
    check("0.0.0.1/0 1", "f:2: `0.0.0.1/0` has bits set beyond its length; did you mean 0.0.0.0/0?");
    check("10.0.0.0/33 1", "f:2: `10.0.0.0/33` is too long: the length can be 0 to 32");
    check("::/129 1", "f:2: `::/129` is too long: the length can be 0 to 128");
    check(
        "10.0.0/8 1",
        "f:2: `10.0.0/8` is no prefix; write ADDRESS/LENGTH, such as 10.0.0.0/8 or 2001:db8::/32",
    );
    check(
        "10.0.0.0 1",
        "f:2: `10.0.0.0` is no prefix; write ADDRESS/LENGTH, such as 10.0.0.0/8 or 2001:db8::/32",
    );
    check("11.0.0.0/8 x", "f:2: `x` is no next hop id; ids are numbers from 0 to 4294967295");
    check("11.0.0.0/8", &route("11.0.0.0/8"));
    check("11.0.0.0/8 1 2", &route("11.0.0.0/8 1 2"));
    check("A 11.0.0.0/8", &route("A 11.0.0.0/8"));
    check("W 11.0.0.0/8 1", &route("W 11.0.0.0/8 1"));
    check("10.0.0.0/8 2", "f:2: 10.0.0.0/8 was given before, in line 1; remove one of the two");
    check(
        "nexthop 2 dev a",
        "f:2: next hop 2 is defined after routes whose next hops are not; define all before the first route",
    );
    let check = |line: &str, want: &str| check_text(&format!("nexthop 1 dev a\n{line}\n"), Err(want));
    check(
        "11.0.0.0/8 3",
        "f:2: next hop 3 of 11.0.0.0/8 is not known; define it before this line: `nexthop 3 via ADDRESS dev NAME`",
    );
    check("nexthop 1 dev b", "f:2: next hop 1 was defined before; remove one of the two lines");
    check("nexthop 2", "f:2: the route to next hop 2 names neither `via ADDRESS` nor `dev NAME`");
    check("nexthop 2 id x", "f:2: `x` is no next hop id; ids are numbers from 0 to 4294967295");
    let long = format!("10.0.0.0/8 1\n{}\n", "1".repeat(text::LONGEST_LINE + 1));
    check_text(&long, Err("f:2: the line is longer than 65536 bytes: this is no route file"));
    let binary = read(b"\xfd7zXZ\x01\x02\n", &Options::default()).map(|_| ());
    assert_eq!(
        binary,
        Err("f:1: the line is not UTF-8 text; if the file is compressed otherwise than by gzip, bzip2 or xz, decompress it first".into())
    );
}

#[test]
fn more_next_hops_than_a_table_can_name() {
    let most: String =
        (0..=NextHopId::MAX.0).map(|id| format!("10.{}.{}.0/24 {id}\n", id >> 8, id & 255)).collect();
    assert_eq!(read(most.as_bytes(), &Options::default()).expect("just enough").hops.len(), 32_767);
    check_text(
        &format!("{most}11.0.0.0/8 40000\n"),
        Err("f:32768: more than 32767 different next hops; a table cannot name more"),
    );
}

#[test]
fn a_second_file_with_an_error_leaves_the_first() {
    let mut routes = Routes::default();
    let options = Options::default();
    routes.read("one", &mut &b"10.0.0.0/8 1\nA 10.0.0.0/8 2\n"[..], &options).expect("a good file");
    let before = shown(&routes);
    let bad = b"11.0.0.0/8 9\n::/0 3\nA 10.0.0.0/8 2\n12.0.0.1/8 1\n";
    routes.read("two", &mut &bad[..], &options).expect_err("a bad file");
    assert_eq!((shown(&routes), routes.hops.len()), (before, 2));
    routes.read("three", &mut &b"::/0 1\n"[..], &options).expect("a good file");
    assert_eq!(shown(&routes), "10.0.0.0/8 1\n::/0 1\nA 10.0.0.0/8 2\n");
}

#[test]
fn ip_route() {
    check_text(
        "default via 192.0.2.1 dev eth0 proto dhcp metric 100 \n\
         10.0.0.0/8 via 192.0.2.1 dev eth0 onlink \n\
         10.0.0.0/8 via 192.0.2.9 dev eth0 metric 5 \n\
         blackhole 10.1.0.0/16 \nunreachable 10.2.0.0/16 metric 7\nprohibit 10.3.0.1 \n\
         10.4.0.0/16 nhid 4 proto bgp \n\tnexthop via 192.0.2.1 dev eth0 weight 1 \n\tnexthop via 192.0.2.2 dev eth1 weight 3 onlink \n\
         10.5.0.0/16 proto static \\\tnexthop dev a weight 1 \\\tnexthop dev b weight 1 \n\
         10.6.0.0/16 via inet6 fe80::1 dev eth0 \n\
         10.7.0.0/16  encap mpls  100 via 192.0.2.1 dev eth0 \n\
         10.8.0.0/16 via 192.0.2.1 dev eth0 table 100\n\
         192.0.2.0/24 dev eth0 proto kernel scope link src 192.0.2.7 mtu lock 1400\n",
        Ok("0.0.0.0/0 via 192.0.2.1 dev eth0\n10.0.0.0/8 via 192.0.2.1 dev eth0\n10.1.0.0/16 blackhole\n\
            10.2.0.0/16 unreachable\n10.3.0.1/32 prohibit\n\
            10.4.0.0/16 nexthop via 192.0.2.1 dev eth0 weight 1 nexthop via 192.0.2.2 dev eth1 weight 3\n\
            10.5.0.0/16 nexthop dev a weight 1 nexthop dev b weight 1\n10.6.0.0/16 via fe80::1 dev eth0\n\
            192.0.2.0/24 dev eth0\n\
            skipped 1 of another table\nskipped 1 with a greater metric, or after an equal one\nskipped 1 with an encapsulation\n"),
    );
    let other = Options { table: Some("100".into()), ..Options::default() };
    check(
        "default dev a\n10.8.0.0/16 dev b table 100\n",
        &other,
        Ok("10.8.0.0/16 dev b\nskipped 1 of another table\n"),
    );
    // The least metric counts, wherever it stands.
    check_text(
        "10.0.0.0/8 dev a metric 9\n10.0.0.0/8 dev b metric 2\n10.0.0.0/8 dev c metric 3\n",
        Ok("10.0.0.0/8 dev b\nskipped 2 with a greater metric, or after an equal one\n"),
    );
}

#[test]
fn ip_6_route() {
    check_text(
        "2001:db8::/64 dev a proto kernel metric 256 pref medium\n2001:db8:1::1 via fe80::1 dev a metric 1024 pref medium\n\
         unreachable 2001:db8:2::/48 dev lo metric 1024 error -101 pref medium\nfe80::/64 dev a proto kernel metric 256\n\
         fe80::/64 dev b proto kernel metric 256\ndefault dev tun metric 1024\n",
        Ok(
            "2001:db8::/64 dev a\n2001:db8:1::1/128 via fe80::1 dev a\n2001:db8:2::/48 unreachable\nfe80::/64 dev a\n\
            ::/0 dev tun\nskipped 1 with a greater metric, or after an equal one\n",
        ),
    );
    check_text("default dev tun metric 1024 pref medium\n", Ok("::/0 dev tun\n"));
    check_text("default dev tun scope link\n", Ok("0.0.0.0/0 dev tun\n"));
}

#[test]
fn ip_route_refused() {
    let check = |line: &str, want: &str| check_text(&format!("default dev a\n{line}\n"), Err(want));
    check(
        "10.0.0.0/8 dev a flavour 3",
        "f:2: `flavour` is not understood here; this reads what `ip route show` prints, without -j or -d",
    );
    check("10.0.0.0/8 via", "f:2: `via` wants an address after it, not ``");
    check("10.0.0.0/8 via eth0", "f:2: `via` wants an address after it, not `eth0`");
    check("10.0.0.0/8 dev", "f:2: `dev` wants a value after it, not ``");
    check("10.0.0.0/8 dev a metric low", "f:2: `metric` wants a number after it, not `low`");
    check("10.0.0.0/8 nhid 5", "f:2: the route to 10.0.0.0/8 names neither `via ADDRESS` nor `dev NAME`");
    check(
        "10.0.0.0/8 proto static\n\tnexthop weight 1",
        "f:2: the route to 10.0.0.0/8 names neither `via ADDRESS` nor `dev NAME`",
    );
    check(
        "blackhole",
        "f:2: `blackhole` is no prefix; write ADDRESS/LENGTH, such as 10.0.0.0/8 or 2001:db8::/32",
    );
    check(
        "blackhole 10.0.0.1/8",
        "f:2: `10.0.0.1/8` has bits set beyond its length; did you mean 10.0.0.0/8?",
    );
}

/// What is written is read as what it was.
#[test]
fn round_trips() {
    let input = "default via 192.0.2.1 dev a\nblackhole 10.1.0.0/16\n10.5.0.0/16 nexthop dev a weight 1 nexthop via 192.0.2.2 dev b weight 9\n\
                 10.6.0.0/16 via inet6 fe80::1 dev a\n2001:db8::/32 via fe80::1 dev a\n";
    let routes = read(input.as_bytes(), &Options::default()).expect("a good file");
    let all = || {
        let v4 = routes.v4.iter().map(|(prefix, id)| (Prefix::V4(*prefix), *id));
        v4.chain(routes.v6.iter().map(|(prefix, id)| (Prefix::V6(*prefix), *id)))
    };
    let (mut text, mut ip) = (Vec::new(), Vec::new());
    let writer = text::Writer::new(&routes.hops);
    writer.begin(&mut text).expect("memory");
    for (prefix, id) in all() {
        let hop = routes.hops.get(id).expect("a known hop");
        writer.route(&mut text, prefix, id).expect("memory");
        ip_route::write_route(&mut ip, prefix, hop).expect("memory");
    }
    assert_eq!(String::from_utf8(ip.clone()).expect("text"), input);
    for written in [text, ip] {
        assert_eq!(shown(&read(&written, &Options::default()).expect("what we wrote")), shown(&routes));
    }
}

/// Bytes of a table dump, laid out by hand as in RFC 6396.
mod dump {
    pub fn record(subtype: u16, body: &[u8]) -> Vec<u8> {
        let mut record = vec![0x60, 0, 0, 0, 0, 13];
        record.extend(subtype.to_be_bytes());
        record.extend((body.len() as u32).to_be_bytes());
        record.extend(body);
        record
    }

    /// Peers 0 to 2: 192.0.2.1 with a short AS number, 2001:db8::1, 192.0.2.3 with long ones.
    pub fn peers() -> Vec<u8> {
        let mut body = b"\x0a\x00\x00\x01\x00\x04view\x00\x03".to_vec();
        body.extend(b"\x00\x0a\x00\x00\x02\xc0\x00\x02\x01\xfd\xe8");
        body.extend(b"\x03\x0a\x00\x00\x03\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x01\x00\x01\x00\x00");
        body.extend(b"\x02\x0a\x00\x00\x04\xc0\x00\x02\x03\x00\x01\x00\x01");
        record(1, &body)
    }

    pub fn attribute(kind: u8, value: &[u8]) -> Vec<u8> {
        if kind == 2 {
            // Extended length.
            return [&[0x50, kind, 0, value.len() as u8], value].concat();
        }
        [&[0x40, kind, value.len() as u8], value].concat()
    }

    /// ORIGIN, and an AS_PATH of a sequence of `hops`.
    pub fn origin_and_path(hops: u8) -> Vec<u8> {
        let mut path = vec![2, hops];
        path.extend((0..hops).flat_map(|hop| [0, 0, 0xfd, hop]));
        [attribute(1, &[0]), attribute(2, &path)].concat()
    }

    pub fn v4_attributes(hops: u8, next_hop: [u8; 4]) -> Vec<u8> {
        [origin_and_path(hops), attribute(3, &next_hop)].concat()
    }

    pub fn entry(peer: u16, path: Option<u32>, attributes: &[u8]) -> Vec<u8> {
        let mut entry = [peer.to_be_bytes().as_slice(), &[0x60, 0, 0, 0]].concat();
        entry.extend(path.into_iter().flat_map(u32::to_be_bytes));
        entry.extend((attributes.len() as u16).to_be_bytes());
        entry.extend(attributes);
        entry
    }

    pub fn rib(subtype: u16, len: u8, prefix: &[u8], entries: &[Vec<u8>]) -> Vec<u8> {
        let mut body = vec![0, 0, 0, 9, len];
        body.extend(prefix);
        body.extend((entries.len() as u16).to_be_bytes());
        body.extend(entries.concat());
        record(subtype, &body)
    }

    pub fn v6_hop(last: u8) -> [u8; 16] {
        [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last]
    }

    /// Both families, several entries each, with and without path ids.
    pub fn whole() -> Vec<u8> {
        let abbreviated = |last| [&[16][..], &v6_hop(last)].concat();
        let with_link_local = [&[32][..], &v6_hop(7), &v6_hop(99)].concat();
        let full = [&[0, 2, 1, 16][..], &v6_hop(8), &[0, 0]].concat();
        let v6 = |hops, reach: &[u8]| [origin_and_path(hops), attribute(14, reach)].concat();
        [
            peers(),
            rib(2, 0, &[], &[entry(0, None, &v4_attributes(1, [192, 0, 2, 1]))]),
            rib(
                2,
                22,
                &[10, 1, 4],
                &[
                    entry(0, None, &v4_attributes(3, [192, 0, 2, 1])),
                    entry(2, None, &v4_attributes(2, [192, 0, 2, 9])),
                ],
            ),
            rib(4, 32, &[0x20, 1, 0xd, 0xb8], &[entry(1, None, &v6(2, &abbreviated(5)))]),
            rib(4, 48, &[0x20, 1, 0xd, 0xb8, 0, 1], &[entry(1, None, &v6(2, &with_link_local))]),
            rib(4, 33, &[0x20, 1, 0xd, 0xb8, 0x80], &[entry(1, None, &v6(2, &full))]),
            rib(8, 8, &[11], &[entry(2, Some(77), &v4_attributes(1, [192, 0, 2, 3]))]),
            rib(10, 16, &[0x20, 2], &[entry(1, Some(78), &v6(1, &abbreviated(6)))]),
        ]
        .concat()
    }
}

#[test]
fn mrt() {
    let routes = read(&dump::whole(), &Options::default()).expect("a good dump");
    assert_eq!(
        shown(&routes),
        "0.0.0.0/0 via 192.0.2.1\n10.1.4.0/22 via 192.0.2.9\n11.0.0.0/8 via 192.0.2.3\n\
         2001:db8::/32 via 2001:db8::5\n2001:db8:1::/48 via 2001:db8::7\n2001:db8:8000::/33 via 2001:db8::8\n\
         2002::/16 via 2001:db8::6\n"
    );
    let peer = Options { peer: Some("192.0.2.1".parse().expect("an address")), ..Options::default() };
    let routes = read(&dump::whole(), &peer).expect("a good dump");
    assert_eq!(
        shown(&routes),
        "0.0.0.0/0 via 192.0.2.1\n10.1.4.0/22 via 192.0.2.1\nskipped 5 without an entry of the peer\n"
    );
    // Bits of the last byte beyond the length do not matter; other subtypes are passed over.
    let odd = [
        dump::peers(),
        dump::rib(2, 9, &[10, 0xff], &[dump::entry(0, None, &dump::v4_attributes(1, [1; 4]))]),
        dump::rib(3, 8, &[10], &[]),
        dump::record(7, &[1, 2, 3]),
    ];
    let routes = read(&odd.concat(), &Options::default()).expect("a good dump");
    assert_eq!(
        shown(&routes),
        "10.128.0.0/9 via 1.1.1.1\nskipped 1 multicast\nskipped 1 records of another subtype\n"
    );
}

#[test]
fn mrt_refused() {
    let check = |dump: &[u8], want: &str| {
        assert_eq!(
            read(dump, &Options { form: Some(Form::Mrt), ..Options::default() }).map(|_| ()),
            Err(want.into())
        );
    };
    let (peers, good) = (dump::peers(), dump::v4_attributes(1, [1; 4]));
    let start = peers.len();
    let with = |rest: &[u8]| [&peers, rest].concat();
    let entry = |attributes: &[u8]| with(&dump::rib(2, 8, &[10], &[dump::entry(0, None, attributes)]));

    let whole = dump::whole();
    check(
        &whole[..whole.len() - 5],
        &format!(
            "f:byte {}: the file ends here, 5 bytes before the end of its last record: fetch it again",
            whole.len() - 5
        ),
    );
    check(
        &peers[..7],
        "f:byte 7: the file ends here, 5 bytes before the end of its last record: fetch it again",
    );
    check(
        &with(&[0, 0, 0, 0, 0, 16, 0, 4, 0, 0, 0, 0]),
        &format!(
            "f:byte {}: a record of type 16 (BGP4MP, updates or states): this reads table dumps (TABLE_DUMP_V2, type 13), often named rib.* or bview.*",
            start + 4
        ),
    );
    check(
        &with(&[0, 0, 0, 0, 0, 13, 0, 2, 0xff, 0xff, 0xff, 0xff]),
        &format!("f:byte {}: a record of 4294967295 bytes: this is no MRT file, or a damaged one", start + 8),
    );
    check(
        &dump::rib(2, 8, &[10], &[]),
        "f:byte 12: routes come before the PEER_INDEX_TABLE: the file lacks its beginning",
    );
    check(
        &with(&dump::rib(2, 33, &[10], &[])),
        &format!("f:byte {}: a prefix length of 33; it can be 0 to 32", start + 16),
    );
    check(
        &with(&dump::rib(4, 129, &[10], &[])),
        &format!("f:byte {}: a prefix length of 129; it can be 0 to 128", start + 16),
    );
    check(
        &with(&dump::rib(2, 8, &[10], &[dump::entry(3, None, &good)])),
        &format!("f:byte {}: 10.0.0.0/8 is of peer 3, but the PEER_INDEX_TABLE has 3 peers", start + 20),
    );
    check(
        &entry(&dump::origin_and_path(1)),
        &format!(
            "f:byte {}: 10.0.0.0/8 has neither a NEXT_HOP nor an MP_REACH_NLRI attribute with a next hop",
            start + 20
        ),
    );
    check(
        &entry(&dump::attribute(3, &[1, 2, 3])),
        &format!("f:byte {}: a next hop of 3 bytes; it has 4 (IPv4), or 16 or 32 (IPv6)", start + 31),
    );
    check(
        &entry(&[0x40, 3, 4, 1, 1]),
        &format!(
            "f:byte {}: the NEXT_HOP needs 4 bytes, but only 2 are left of the attributes: the record is damaged",
            start + 31
        ),
    );
    check(
        &with(&dump::record(2, &[0, 0, 0, 9, 8, 10, 0, 0, 5])),
        &format!("f:byte {}: 1 bytes are left over at the end of the record: it is damaged", start + 20),
    );
    let options = Options { peer: Some("192.0.2.77".parse().expect("an address")), ..Options::default() };
    assert_eq!(
        read(&peers, &options).map(|_| ()),
        Err("f:byte 12: the dump has no peer 192.0.2.77; its peers are 192.0.2.1, 2001:db8::1, 192.0.2.3"
            .into())
    );
}

/// A choice that the file's form does not have is refused, not passed over.
#[test]
fn a_peer_or_table_of_another_form() {
    let peer = Options { peer: Some("192.0.2.1".parse().expect("an address")), ..Options::default() };
    let table = Options { table: Some("blue".to_owned()), ..Options::default() };
    let refused = |bytes: &[u8], options: &Options| read(bytes, options).expect_err("another form");
    let tail = "leave it out, or say the file's form";
    for (text, form) in [
        ("# a comment\n10.0.0.0/8 1\n", "`PREFIX/LEN ID` lines"),
        ("\n10.0.0.0/8 via 192.0.2.1 dev eth0\n", "the output of `ip route show`"),
    ] {
        assert_eq!(
            refused(text.as_bytes(), &peer),
            format!(
                "f:2: `peer` chooses among the routes of MRT dumps, and this file is read as {form}; {tail}"
            )
        );
    }
    let of = "what `ip route show` prints";
    assert_eq!(
        refused(b"10.0.0.0/8 1\n", &table),
        format!(
            "f:1: `table` chooses among the routes of {of}, and this file is read as `PREFIX/LEN ID` lines; {tail}"
        )
    );
    assert_eq!(
        refused(&dump::whole(), &table),
        format!(
            "f:byte 0: `table` chooses among the routes of {of}, and this file is read as an MRT dump; {tail}"
        )
    );
}

/// A dump cut anywhere is refused, by name and in full, unless it was cut between two records.
#[test]
fn a_dump_cut_anywhere() {
    let whole = dump::whole();
    let options = Options { form: Some(Form::Mrt), ..Options::default() };
    let good = (0..=whole.len()).filter(|cut| read(&whole[..*cut], &options).is_ok()).count();
    assert_eq!(good, 9, "the empty file, and the ends of eight records");
}

/// What `bgpdump -m` says of a route: `TABLE_DUMP2|TIME|B|PEER|AS|PREFIX|PATH|ORIGIN|NEXT HOP|...`, with a path's number
/// behind the prefix where it has one (`TABLE_DUMP2_AP`).
fn route_of_bgpdump(line: &str) -> String {
    let fields: Vec<&str> = line.split('|').collect();
    let next_hop = if fields[0].ends_with("_AP") { 9 } else { 8 };
    format!("{} via {}", fields[5], fields[next_hop])
}

/// An independent reader agrees, where it is installed.
#[test]
fn bgpdump_reads_the_same() {
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    std::fs::write(file.path(), dump::whole()).expect("a temporary file");
    let out = std::process::Command::new("bgpdump").args(["-v", "-m"]).arg(file.path()).output();
    let Ok(out) = out else {
        eprintln!("bgpdump_reads_the_same: skipped, for want of bgpdump");
        return;
    };
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let mut theirs: Vec<String> =
        String::from_utf8_lossy(&out.stdout).lines().map(route_of_bgpdump).collect();
    theirs.retain(|line| line != "10.1.4.0/22 via 192.0.2.1"); // the entry of the longer path
    let ours = shown(&read(&dump::whole(), &Options::default()).expect("a good dump"));
    let mut ours: Vec<String> = ours.lines().map(str::to_owned).collect();
    theirs.sort();
    ours.sort();
    assert_eq!(theirs, ours);
}
