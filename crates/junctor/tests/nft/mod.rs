// SPDX-License-Identifier: MIT OR Apache-2.0
//! Linux with nftables as a router, random rules for it, and packets.

use testbed::rig::{Cable, Namespace};

/// Numbers that are the same each time.
pub struct Dice(pub u64);

impl Dice {
    /// A number below `most`.
    pub fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % most
    }

    /// One of several words.
    pub fn one<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.below(of.len() as u64) as usize]
    }
}

/// What a rule asks of a packet, in our words and in those of nftables.
pub fn matches(dice: &mut Dice) -> (String, String) {
    let (mut ours, mut theirs) = (String::new(), String::new());
    for (word, device) in [("from", "iifname"), ("to", "oifname")] {
        if dice.below(3) == 0 {
            let n = dice.below(2);
            ours += &format!(" {word} z{n}");
            theirs += &format!("{device} d{n} ");
        }
    }
    let six = dice.below(2) == 0;
    let [four_addresses, six_addresses] = [
        ["10.0.0.0/30", "10.0.0.5", "10.0.0.2-10.0.0.9", "192.0.2.0/29", "192.0.2.3-192.0.2.40", "@hosts"],
        [
            "2001:db8::/126",
            "2001:db8::5",
            "2001:db8::2-2001:db8::9",
            "2001:db8:1::/125",
            "2001:db8:1::3-2001:db8:1::40",
            "@hosts",
        ],
    ];
    let mut has_address = false;
    for (word, field) in [("src", "saddr"), ("dst", "daddr")] {
        if dice.below(2) == 0 {
            let address = dice.one(if six { &six_addresses } else { &four_addresses });
            let not = dice.below(4) == 0;
            let set = if six { "@hosts6" } else { "@hosts4" };
            ours += &format!(" {word} {}{address}", if not { "!" } else { "" });
            theirs += &format!(
                "{} {field} {}{} ",
                if six { "ip6" } else { "ip" },
                if not { "!= " } else { "" },
                if address == "@hosts" { set } else { address }
            );
            has_address = true;
        }
    }
    if has_address {
        // A negation alone says nothing of the family.
        ours += if six { " ip6" } else { " ip" };
    }
    match dice.below(5) {
        0 => {}
        1 if six || !has_address => {
            ours += " icmp6 type echo-request";
            theirs += "icmpv6 type echo-request ";
            if has_address && !six {
                return matches(dice);
            }
        }
        1 => {
            ours += " icmp type echo-request";
            theirs += "icmp type echo-request ";
        }
        _ => {
            let (mine, other) =
                [("tcp", "tcp"), ("udp", "udp"), ("tcp,udp", "{ tcp, udp }")][dice.below(3) as usize];
            ours += &format!(" {mine}");
            theirs += &format!("meta l4proto {other} ");
            for (word, field) in [("sport", "sport"), ("port", "dport")] {
                if dice.below(2) == 0 {
                    let (mine, other) =
                        [("5", "5"), ("1-6", "1-6"), ("3,7-9", "{ 3, 7-9 }"), ("@some", "@some")]
                            [dice.below(4) as usize];
                    ours += &format!(" {word} {mine}");
                    theirs += &format!("th {field} {other} ");
                }
            }
        }
    }
    (ours, theirs)
}

/// Whether a rule asks for the source on the link, and for which: in our words and in those of nftables. The set `phones` has 2, 5 and 6.
pub fn macs(dice: &mut Dice) -> (String, String) {
    if dice.below(4) > 0 {
        return (String::new(), String::new());
    }
    let (not, unlike) = if dice.below(3) == 0 { ("!", "!= ") } else { ("", "") };
    let (ours, theirs) = [
        ("02:00:00:00:00:03", "02:00:00:00:00:03"),
        ("2:0:0:0:0:1,2:0:0:0:0:4", "{ 02:00:00:00:00:01, 02:00:00:00:00:04 }"),
        ("2:0:0:0:0:2-2:0:0:0:0:5", "02:00:00:00:00:02-02:00:00:00:00:05"),
        ("@phones", "@phones"),
    ][dice.below(4) as usize];
    (format!(" mac {not}{ours}"), format!("ether saddr {unlike}{theirs} "))
}

/// The set `phones` for nftables and for a rule file.
pub const PHONES: [&str; 2] = [
    "set phones { type ether_addr; flags interval; elements = { 02:00:00:00:00:02, 02:00:00:00:00:05-02:00:00:00:00:06 }; }\n",
    "set phones 2:0:0:0:0:2 2:0:0:0:0:5-2:0:0:0:0:6\n",
];

/// Where an IP packet comes from on its link, by the last bits of its source address.
pub fn mac(ip: &[u8]) -> [u8; 6] {
    let last = if ip[0] >> 4 == 6 { ip[23] } else { ip[15] };
    [2, 0, 0, 0, 0, last & 7]
}

/// A packet that begins a connection: the link that it comes by, its headers, and those of its answer.
pub fn packet(dice: &mut Dice) -> (usize, String, String) {
    let link = dice.below(2) as usize;
    let six = dice.below(2) == 0;
    let near = dice.below(12) + 1;
    let far = dice.below(70) + 1;
    let host = |of: usize, n: u64| match (six, of) {
        (false, 0) => format!("10.0.0.{n}"),
        (false, _) => format!("192.0.2.{n}"),
        (true, 0) => format!("2001:db8::{n:x}"),
        (true, _) => format!("2001:db8:1::{n:x}"),
    };
    let (from, to) = (host(link, near), host(1 - link, far));
    let ip = if six { "ip6" } else { "ip" };
    let ports = [dice.below(10) + 1, dice.below(10) + 1];
    let (there, back) = match dice.below(4) {
        0 => {
            let icmp = if six { "icmp6" } else { "icmp" };
            (format!("{icmp} echo id {}", ports[0]), format!("{icmp} reply id {}", ports[0]))
        }
        1 => (format!("udp {} to {}", ports[0], ports[1]), format!("udp {} to {}", ports[1], ports[0])),
        _ => (
            format!("tcp {} to {} flags S seq 100 win 9", ports[0], ports[1]),
            format!("tcp {} to {} flags SA seq 900 ack 101 win 9", ports[1], ports[0]),
        ),
    };
    (link, format!("{ip} {from} to {to} / {there}"), format!("{ip} {to} to {from} / {back}"))
}

/// Sends frames that come as hexadecimal digits, a line each.
const SEND: &str = r#"
import socket, sys
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
s.bind((sys.argv[1], 0))
for line in open(sys.argv[2]):
    s.send(bytes.fromhex(line.strip()))
"#;

/// Sends IP packets to a router.
pub fn send(
    files: &tempfile::TempDir,
    host: &Namespace,
    router: &Namespace,
    link: usize,
    packets: &[&Vec<u8>],
) {
    let to = router.mac(&format!("d{link}")).unwrap();
    let lines: String = packets
        .iter()
        .map(|ip| {
            let kind = if ip[0] >> 4 == 6 { [0x86, 0xdd] } else { [8, 0] };
            let frame = [&to[..], &mac(ip), &kind, &ip[..]].concat();
            frame.iter().map(|byte| format!("{byte:02x}")).collect::<String>() + "\n"
        })
        .collect();
    let path = files.path().join("frames");
    std::fs::write(&path, lines).unwrap();
    host.run(&["python3", "-c", SEND, &format!("h{link}"), &path.display().to_string()]).unwrap();
}

/// Linux as a router between two hosts; nothing if it has no nftables.
pub fn kernel_router() -> Option<(Namespace, [Namespace; 2])> {
    let router = Namespace::new("nft").unwrap();
    let hosts = [Namespace::new("h0").unwrap(), Namespace::new("h1").unwrap()];
    if router.run(&["nft", "add", "table", "inet", "probe"]).is_err() {
        return None;
    }
    for (n, host) in hosts.iter().enumerate() {
        Cable::default().lay(host, &format!("h{n}"), &router, &format!("d{n}")).unwrap();
        router.sysctl(&format!("net/ipv6/conf/d{n}/disable_ipv6"), "0").unwrap();
        router.sysctl(&format!("net/ipv4/conf/d{n}/rp_filter"), "0").unwrap();
    }
    router.sysctl("net/ipv4/conf/all/rp_filter", "0").unwrap();
    router.sysctl("net/ipv4/ip_forward", "1").unwrap();
    router.sysctl("net/ipv6/conf/all/forwarding", "1").unwrap();
    for command in [
        "addr add 10.0.0.250/24 dev d0",
        "addr add 192.0.2.250/24 dev d1",
        "addr add 2001:db8::fe/64 dev d0 nodad",
        "addr add 2001:db8:1::fe/64 dev d1 nodad",
    ] {
        router.ip(command).unwrap();
    }
    Some((router, hosts))
}
