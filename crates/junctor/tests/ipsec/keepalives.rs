// SPDX-License-Identifier: MIT OR Apache-2.0
//! Keep-alives for address translators (RFC 3948, 2.3), where keys are set by hand. tcpdump names what leaves.

use std::process::{Command, Stdio};
use std::time::Duration;

use crate::wired::{ENDS, ENDS6, NETS, NETS6, Wired, dual, kind, policies, sas, to, udp};

/// The link type of packets that begin with their IP header.
const RAW: u32 = 101;

/// What tcpdump says of packets, a line each. `None` where it is missing.
fn told(packets: &[Vec<u8>]) -> Option<Vec<String>> {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    let words = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
    let mut bytes = words(&[0xa1b2_c3d4, 4 << 16 | 2, 0, 0, 65535, RAW]);
    for (second, packet) in (0..).zip(packets) {
        let len = packet.len() as u32;
        bytes.extend(words(&[second, 0, len, len]));
        bytes.extend(packet);
    }
    std::io::Write::write_all(&mut file, &bytes).unwrap();
    let run = Command::new("tcpdump").args(["-nvt", "-r"]).arg(file.path()).stderr(Stdio::null()).output();
    let Ok(output) = run else {
        eprintln!("skipped: there is no tcpdump");
        return None;
    };
    let text = String::from_utf8(output.stdout).unwrap();
    Some(text.lines().map(str::to_owned).collect())
}

#[test]
fn tunnels_by_udp_keep_their_mapping() {
    let families = [(ENDS, NETS, "10.1.0.9", "10.2.0.9"), (ENDS6, NETS6, "2001:db8:1::9", "2001:db8:2::9")];
    // The port of IKE passes every policy. By another one, only the mark shows what a keep-alive is.
    for ((ends, nets, near, far), port) in
        families.into_iter().flat_map(|family| [(family, 4500), (family, 4502)])
    {
        let by_udp = sas(ends).replace("mode tunnel", &format!("mode tunnel encap espinudp {port} {port}"));
        // The first one is the way out. The other one says so in vain.
        // A policy for everything would have the keep-alives in the tunnel.
        let ([here, there], all) = (ends, if near.contains(':') { "::/0" } else { "0.0.0.0/0" });
        let everything = format!(
            "POLICY src {all} dst {all} dir out tmpl src {here} dst {there} reqid 1 mode tunnel priority 9,\n"
        );
        let all = by_udp.replace(" 128,", " 128 keepalive 20,") + &policies(ends, nets) + &everything;
        let mut router = Wired::new(&dual(&all));
        // The neighbour is known then.
        assert_eq!(router.send(1, &[udp(near, far, 7, 40)]).len(), 1, "{:?}", router.router.drops());
        router.router.run(Duration::from_secs(60));
        let came = router.router.collect();
        let sent: Vec<_> =
            came.into_iter().filter(|(at, frame)| *at == 0 && kind(&frame[14..]).0 == 17).collect();
        let packets: Vec<_> = sent.into_iter().map(|(_, frame)| frame[14..].to_vec()).collect();
        assert_eq!(
            packets.len(),
            2,
            "20 and 40 seconds after the look that found the packet: {:?}",
            router.router.drops()
        );
        assert!(
            packets.iter().all(|packet| kind(packet) == (17, to(ends[1])) && packet.last() == Some(&0xff))
        );
        assert_eq!(router.router.read("r/dummies.keepalives").trim(), "2");
        let Some(lines) = told(&packets).filter(|_| port == 4500) else { continue };
        let named = lines.iter().filter(|line| line.contains("isakmp-nat-keep-alive"));
        assert_eq!(named.count(), 2, "{lines:?}");
        assert!(!lines.iter().any(|line| line.contains("bad")), "{lines:?}");
    }
}

/// Those of the peer are dropped under a name.
#[test]
fn those_that_come_are_named() {
    for (ends, nets) in [(ENDS, NETS), (ENDS6, NETS6)] {
        let by_udp = sas(ends).replace("mode tunnel", "mode tunnel encap espinudp 4500 4500");
        let mut router = Wired::new(&dual(&(by_udp + &policies(ends, nets))));
        let mut keep_alive = udp(ends[1], ends[0], 4500, 1);
        let at = keep_alive.len() - 9;
        keep_alive[at..at + 2].copy_from_slice(&4500u16.to_be_bytes());
        *keep_alive.last_mut().unwrap() = 0xff;
        // What else is discarded was so before.
        router.send(0, &[]);
        let before = router.drops("discarded");
        assert_eq!(router.send(0, &[keep_alive]), []);
        assert_eq!(router.drops("discarded"), before + 1, "{:?}", router.router.drops());
    }
}
